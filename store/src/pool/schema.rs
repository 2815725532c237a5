//! Bringing the tables up to date, and refusing those that this program does not understand.

use sqlx::migrate::Migrator;

use super::{Pool, scalar};
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
                let mut connection = pool.acquire().await.context(ASK)?;
                // A migration may take longer than any other statement, and waits for another process that migrates.
                sqlx::raw_sql("SET statement_timeout TO 0").execute(&mut *connection).await.context(ASK)?;
                let migrated = postgres.run_direct(None, &mut *connection, false).await;
                // In every case: a connection without a time-out, or with the lock, must not return to the pool.
                connection.close().await.context("close a connection")?;
                migrated?;
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
            WHERE table_schema = current_schema() AND table_name = '_sqlx_migrations'";
        const NEWEST: &str = "SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations WHERE success";
        let sql = if self.is_postgres() { OF_POSTGRES } else { OF_SQLITE };
        let there: i64 = scalar(sql).fetch_one(self).await.context(ASK)?;
        if there == 0 {
            return Ok(0);
        }
        scalar(NEWEST).fetch_one(self).await.context(ASK)
    }
}

fn refuse_newer(found: i64, migrator: &Migrator) -> Result<(), StoreError> {
    let known = newest(migrator);
    if found > known { Err(StoreError::SchemaTooNew { found, known }) } else { Ok(()) }
}

fn newest(migrator: &Migrator) -> i64 {
    migrator.iter().map(|migration| migration.version).max().unwrap_or(0)
}
