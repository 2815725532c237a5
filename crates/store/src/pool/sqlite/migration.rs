//! Migrations of an SQLite file, with the table and the checks of sqlx, which migrates PostgreSQL.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};
use sqlx::migrate::{MigrateError, Migrator};

use super::error::driver_error;
use super::writer::{Undo, Writer};
use crate::error::{Context, StoreError};

/// Runs all missing migrations in one transaction. A process that migrates the same file at the same time waits for it.
pub async fn migrate(writer: &Writer, migrator: &Migrator) -> Result<(), StoreError> {
    let mut turn = writer.begin(Undo::Whole).await.context("migrate the database")?;
    let apply = |connection: &Connection| apply(connection, migrator);
    let applied = turn.connection().and_then(|connection| connection.visit_long(apply));
    Ok(turn.settle(applied, Result::is_ok).await.context("migrate the database")??)
}

fn apply(connection: &Connection, migrator: &Migrator) -> rusqlite::Result<Result<(), MigrateError>> {
    const TABLE: &str = "CREATE TABLE IF NOT EXISTS _sqlx_migrations (
        version BIGINT PRIMARY KEY,
        description TEXT NOT NULL,
        installed_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
        success BOOLEAN NOT NULL,
        checksum BLOB NOT NULL,
        execution_time BIGINT NOT NULL)";
    const APPLIED: &str = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
        VALUES (?1, ?2, TRUE, ?3, -1)";
    connection.execute_batch(TABLE)?;
    let mut rows = connection.prepare("SELECT version, checksum FROM _sqlx_migrations")?;
    let applied: BTreeMap<i64, Vec<u8>> =
        rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    let is_known = |version: i64| migrator.iter().any(|migration| migration.version == version);
    if let Some(version) = applied.keys().find(|version| !is_known(**version)) {
        return Ok(Err(MigrateError::VersionMissing(*version)));
    }
    for migration in migrator.iter() {
        let version = migration.version;
        match applied.get(&version) {
            Some(checksum) if **checksum != *migration.checksum => {
                return Ok(Err(MigrateError::VersionMismatch(version)));
            }
            Some(_) => {}
            None => {
                if let Err(error) = connection.execute_batch(migration.sql.as_str()) {
                    return Ok(Err(MigrateError::ExecuteMigration(driver_error(&error), version)));
                }
                connection.execute(APPLIED, params![version, migration.description, &*migration.checksum])?;
            }
        }
    }
    Ok(Ok(()))
}
