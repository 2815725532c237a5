//! Migrates the tables, and rejects tables that this program does not support.
//!
//! During a rolling upgrade, or after one is undone, a server of the previous version may start on tables that a newer one has migrated.
//! Only the author of a migration knows whether this is safe. If it is, the name of the migration's file ends with
//! `_for_servers_from_NNNN`: programs whose newest migration is NNNN or later may use its tables. The names are stored in the table of
//! migrations, in the transaction of the migration, where older programs read them. Without such a name, only programs that contain the
//! migration may use its tables.

use sqlx::AssertSqlSafe;
use sqlx::migrate::{MigrateError, Migration, Migrator};

use super::postgres::{make_schema, qualified};
use super::{Pool, query, scalar, script};
use crate::error::{Context, StoreError};

const ASK: &str = "read the schema of the database";

/// The end of a migration's name, before the number. In the table each underscore is replaced by a space.
const FROM: &str = " for servers from ";

/// An applied migration.
struct Applied {
    version: i64,
    name: String,
    checksum: Vec<u8>,
}

impl Applied {
    /// The newest migration that a program must contain to use the tables after this one.
    fn servers_from(&self) -> i64 {
        self.name.rsplit_once(FROM).and_then(|(_, from)| from.parse().ok()).unwrap_or(self.version)
    }
}

impl Pool {
    /// Applies missing migrations; only reads if there are none. Concurrent processes apply them once: on PostgreSQL an advisory lock
    /// makes the second process wait, on SQLite the write lock of the single transaction that contains all migrations.
    pub async fn migrate(&self, sqlite: &Migrator, postgres: &Migrator) -> Result<(), StoreError> {
        let migrator = self.migrator_of(sqlite, postgres);
        let applied = self.applied().await?;
        refuse_newer(&applied, migrator)?;
        let is_as_known = |migration: &Migration| {
            let of_it = applied.iter().find(|found| found.version == migration.version);
            of_it.is_some_and(|found| *found.checksum == *migration.checksum)
        };
        if migrator.iter().all(is_as_known) {
            return Ok(());
        }
        match self {
            Self::Sqlite { writer, .. } => super::sqlite::migration::migrate(writer, migrator).await,
            Self::Postgres(pool) => {
                // A migration may take longer than any other statement, and may wait for another process that migrates.
                let mut connection = pool.acquire_apart().await.context(ASK)?;
                if let Some(schema) = pool.schema {
                    make_schema(&mut connection, schema).await?;
                    let path = AssertSqlSafe(format!("SET search_path TO {schema}"));
                    script(path).execute(&mut connection).await.context(ASK)?;
                }
                let (on, watch) = connection.statement().context(ASK)?;
                let migrated = watch.over(async { Ok(migrator.run_direct(None, on, false).await) }).await;
                connection.close().await;
                match migrated.context(ASK)? {
                    // A newer program has migrated while this one waited.
                    Err(MigrateError::VersionMissing(_)) => self.check_schema(sqlite, postgres).await,
                    migrated => Ok(migrated?),
                }
            }
        }
    }

    /// Rejects tables that are older than this program, or newer and not compatible with it.
    pub async fn check_schema(&self, sqlite: &Migrator, postgres: &Migrator) -> Result<(), StoreError> {
        let migrator = self.migrator_of(sqlite, postgres);
        let applied = self.applied().await?;
        refuse_newer(&applied, migrator)?;
        let is_missing = |migration: &&Migration| applied.iter().all(|found| found.version != migration.version);
        let missing: Vec<String> = migrator.iter().filter(is_missing).map(named).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(StoreError::SchemaTooOld { found: newest(&applied), known: known(migrator), missing: missing.join(", ") })
    }

    /// The newest migration that this program contains.
    pub fn known_schema(&self, sqlite: &Migrator, postgres: &Migrator) -> i64 {
        known(self.migrator_of(sqlite, postgres))
    }

    /// Whether the database has no tables of this program yet.
    pub async fn is_empty(&self) -> Result<bool, StoreError> {
        Ok(self.applied().await?.is_empty())
    }

    fn migrator_of<'m>(&self, sqlite: &'m Migrator, postgres: &'m Migrator) -> &'m Migrator {
        if self.is_postgres() { postgres } else { sqlite }
    }

    /// The applied migrations, in order.
    async fn applied(&self) -> Result<Vec<Applied>, StoreError> {
        const OF_SQLITE: &str = "SELECT COUNT(*) FROM sqlite_master WHERE name = '_sqlx_migrations'";
        const OF_POSTGRES: &str = "SELECT COUNT(*) FROM information_schema.tables
            WHERE table_schema = COALESCE($1, current_schema()) AND table_name = '_sqlx_migrations'";
        let there = if self.is_postgres() { scalar(OF_POSTGRES).bind(self.schema()) } else { scalar(OF_SQLITE) };
        if there.fetch_one::<i64>(self).await.context(ASK)? == 0 {
            return Ok(Vec::new());
        }
        let table = qualified(self.schema(), "_sqlx_migrations");
        let applied = format!("SELECT version, description, checksum FROM {table} WHERE success ORDER BY version");
        let rows: Vec<(i64, String, Vec<u8>)> = query(AssertSqlSafe(applied)).fetch_all(self).await.context(ASK)?;
        Ok(rows.into_iter().map(|(version, name, checksum)| Applied { version, name, checksum }).collect())
    }
}

/// Rejects unknown migrations that are not compatible with this program.
fn refuse_newer(applied: &[Applied], migrator: &Migrator) -> Result<(), StoreError> {
    let known = known(migrator);
    let newer: Vec<&Applied> = applied.iter().filter(|found| found.version > known).collect();
    if let Some(refusing) = newer.iter().find(|found| found.servers_from() > known) {
        let Applied { version, name, .. } = refusing;
        return Err(StoreError::SchemaTooNew {
            found: newest(applied),
            known,
            refusing: format!("{version} ({name})"),
        });
    }
    if !newer.is_empty() {
        tracing::info!(found = newest(applied), known, "the schema is newer than this program and is for it too");
    }
    Ok(())
}

fn named(migration: &Migration) -> String {
    format!("{} ({})", migration.version, migration.description)
}

fn newest(applied: &[Applied]) -> i64 {
    applied.last().map_or(0, |found| found.version)
}

fn known(migrator: &Migrator) -> i64 {
    migrator.iter().map(|migration| migration.version).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_migration_states_for_which_servers_it_is() {
        let from = |name: &str| Applied { version: 21, name: name.to_owned(), checksum: Vec::new() }.servers_from();
        for (name, servers_from) in [
            ("tiles for servers from 18", 18),
            ("tiles for servers from 0018", 18),
            ("tiles", 21),
            ("tiles for servers from old times", 21),
            ("for servers from 18 tiles", 21),
        ] {
            assert_eq!(from(name), servers_from, "{name}");
        }
    }
}
