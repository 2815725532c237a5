//! Bringing the tables up to date, and refusing those that this program does not understand.

use sqlx::AssertSqlSafe;
use sqlx::migrate::Migrator;

use super::postgres::{make_schema, qualified};
use super::{Pool, scalar, script};
use crate::error::{Context, StoreError};

const ASK: &str = "read the schema of the database";

impl Pool {
    /// Applies the migrations that are missing. Two processes that start together do it once: on PostgreSQL an advisory
    /// lock keeps the second waiting, on SQLite the write lock, under which all migrations are one transaction.
    pub async fn migrate(&self, sqlite: &Migrator, postgres: &Migrator) -> Result<(), StoreError> {
        match self {
            Self::Sqlite { writer, file, .. } => {
                refuse_newer(self.schema_version().await?, sqlite)?;
                super::sqlite::migrate(writer, file, sqlite).await?;
            }
            Self::Postgres(pool) => {
                refuse_newer(self.schema_version().await?, postgres)?;
                // A migration may take longer than any other statement, and waits for another process that migrates.
                let mut connection = pool.acquire_apart().await.context(ASK)?;
                if let Some(schema) = pool.schema {
                    make_schema(&mut connection, schema).await?;
                    let path = AssertSqlSafe(format!("SET search_path TO {schema}"));
                    script(path).execute(&mut connection).await.context(ASK)?;
                }
                let (on, watch) = connection.statement().context(ASK)?;
                let migrated = watch.over(async { Ok(postgres.run_direct(None, on, false).await) }).await;
                connection.close().await;
                migrated.context(ASK)??;
            }
        }
        Ok(())
    }

    /// Refuses tables that are newer or older than this program.
    pub async fn check_schema(&self, sqlite: &Migrator, postgres: &Migrator) -> Result<(), StoreError> {
        let migrator = if self.is_postgres() { postgres } else { sqlite };
        let found = self.schema_version().await?;
        refuse_newer(found, migrator)?;
        let known = newest(migrator);
        if found < known { Err(StoreError::SchemaTooOld { found, known }) } else { Ok(()) }
    }

    /// Whether no program has made its tables yet.
    pub async fn is_empty(&self) -> Result<bool, StoreError> {
        Ok(self.schema_version().await? == 0)
    }

    /// The newest migration that was applied; 0 when there is none.
    async fn schema_version(&self) -> Result<i64, StoreError> {
        const OF_SQLITE: &str = "SELECT COUNT(*) FROM sqlite_master WHERE name = '_sqlx_migrations'";
        const OF_POSTGRES: &str = "SELECT COUNT(*) FROM information_schema.tables
            WHERE table_schema = COALESCE($1, current_schema()) AND table_name = '_sqlx_migrations'";
        let there = if self.is_postgres() { scalar(OF_POSTGRES).bind(self.schema()) } else { scalar(OF_SQLITE) };
        if there.fetch_one::<i64>(self).await.context(ASK)? == 0 {
            return Ok(0);
        }
        let table = qualified(self.schema(), "_sqlx_migrations");
        let newest = AssertSqlSafe(format!("SELECT COALESCE(MAX(version), 0) FROM {table} WHERE success"));
        scalar(newest).fetch_one(self).await.context(ASK)
    }
}

fn refuse_newer(found: i64, migrator: &Migrator) -> Result<(), StoreError> {
    let known = newest(migrator);
    if found > known { Err(StoreError::SchemaTooNew { found, known }) } else { Ok(()) }
}

fn newest(migrator: &Migrator) -> i64 {
    migrator.iter().map(|migration| migration.version).max().unwrap_or(0)
}
