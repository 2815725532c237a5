//! Common interface of both databases (`docs/decisions/0027-two-databases.md`).
//!
//! SQL is written once and runs on both: a [`Pool`] is one or the other, and a statement ([`query`], [`scalar`]) chooses the driver at run
//! time.
//!
//! | call | where the statement runs |
//! |---|---|
//! | `query(SQL).fetch_all(&pool)` | one statement that reads |
//! | `query(SQL).execute(pool.writer())` | one statement that writes, in a separate transaction |
//! | `query(SQL).execute(&mut *tx)` | in a transaction: [`in_transaction!`](crate::in_transaction), or a function that takes `tx: &mut` [`Tx`] |
//!
//! A short read through an index is a [`Probe`], `probe(PROBE).fetch_optional(&pool)`, which SQLite answers on the caller's thread.
//!
//! sqlx runs the statements of PostgreSQL, `rusqlite` the statements of SQLite: a connection of sqlx to SQLite is a thread, and the round
//! trip to it costs several times the CPU time of a short statement (`sqlite/connection.rs`).
//!
//! `$1` placeholders, `RETURNING`, `ON CONFLICT`, CTEs and partial indexes work on both. Not supported on both: arrays, `now()`, `FOR
//! UPDATE`, unsigned integers, and sums without `CAST(… AS BIGINT)` (PostgreSQL returns NUMERIC). Timestamps are bound as
//! [`domain::Timestamp`]: SQLite stores them as RFC 3339 text, and text of whole milliseconds in UTC sorts in time order (`…:00+00:00`
//! before `…:00.001+00:00`, since `+` sorts before `.`).

mod argument;
mod array;
mod handle;
mod postgres;
mod probe;
mod query;
mod replication;
mod row;
mod schema;
mod settings;
mod sqlite;
mod text;
mod transaction;

use std::path::Path;

pub use self::argument::{Argument, Kind, Nullable};
pub use self::array::Array;
pub use self::handle::Pool;
pub(crate) use self::postgres::copy_rows;
pub use self::postgres::transaction::PgTransaction;
pub use self::postgres::{
    PostgresConnection, PostgresListener, PostgresPool, SCHEMA_OF_LOG, ServerRole, StatementWatch, check_url,
    servers_of,
};
pub use self::probe::{Probe, ProbeQuery, ROWS_MAX, not_a_probe, probe};
pub use self::query::{Query, QueryBuilder, ScalarQuery, Script, Target, Values, query, scalar, script};
pub use self::replication::{ServerStatus, Standby};
pub use self::row::{Column, Columns, DatabaseRow, Member};
pub use self::schema::SchemaPlan;
pub use self::settings::{DatabaseSettings, OldTables};
pub use self::sqlite::connection::SqliteConnection;
pub use self::sqlite::error::SqliteError;
pub use self::sqlite::file::SqliteFile;
pub use self::sqlite::place::refused_commit;
pub use self::sqlite::readers::SqliteReaders;
pub use self::sqlite::wal::{WalCopier, WalGrowth};
pub use self::sqlite::writer::{Undo, WriteGuard, Writer, WriterCounts};
#[doc(hidden)]
pub use self::text::{bytes, length};
pub use self::transaction::{Transaction, Tx, driver_errors};
use crate::error::{Context, StoreError};

/// Number of connections to one database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// Open connections.
    pub open: u64,
    /// Open connections that are not in use.
    pub idle: u64,
    /// Writes that wait for the writer; `None` for PostgreSQL.
    pub waiting: Option<u64>,
}

impl Pool {
    /// Connects, and refuses a database with settings that allow it to lose acknowledged writes.
    ///
    /// Without `settings.url` the database is the SQLite file `sqlite_path`; file and folder are created if they are absent. `schema` is
    /// the PostgreSQL schema to use, created if absent; `None` is the server's default. SQLite has one file per schema instead, so it
    /// ignores `schema`.
    #[boxed]
    pub async fn open(
        settings: &DatabaseSettings,
        sqlite_path: &Path,
        schema: Option<&'static str>,
    ) -> Result<Self, StoreError> {
        match &settings.url {
            None => sqlite::open(settings, sqlite_path).await,
            Some(url) => postgres::open(settings, url, schema, ServerRole::Primary).await,
        }
    }

    /// Connects to a standby of a PostgreSQL server, for reads.
    pub(crate) async fn open_standby(
        settings: &DatabaseSettings,
        url: &str,
        schema: Option<&'static str>,
    ) -> Result<Self, StoreError> {
        postgres::open(settings, url, schema, ServerRole::Standby).await
    }

    /// Opens a copy of an SQLite file, such as a backup, read-only: neither the file nor its folder changes.
    #[boxed]
    pub async fn open_copy(path: &Path) -> Result<Self, StoreError> {
        sqlite::open_copy(path).await
    }

    /// Copies all committed rows into a new SQLite file, without blocking readers and writers; `false` for PostgreSQL, which has its own
    /// tools.
    #[boxed]
    pub async fn copy_to(&self, path: &Path) -> Result<bool, StoreError> {
        match self {
            Self::Sqlite { file, .. } => sqlite::copy_to(file, path).await.map(|()| true),
            Self::Postgres(_) => Ok(false),
        }
    }

    /// Renames the SQLite file, which is closed, or the PostgreSQL `schema`; the new name contains `mark` and is returned.
    #[boxed]
    pub async fn set_aside(self, schema: &'static str, mark: &str) -> Result<String, StoreError> {
        match &self {
            Self::Sqlite { file, .. } => {
                // Closing the last connection removes the write-ahead log next to the file.
                self.close().await;
                sqlite::set_file_aside(file.path(), mark)
            }
            Self::Postgres(pool) => {
                let name = format!("{schema}_{}", mark.to_lowercase());
                postgres::set_schema_aside(pool, schema, &name).await?;
                self.close().await;
                Ok(format!("the schema {name}"))
            }
        }
    }

    /// Version and durability settings, for an operator.
    #[boxed]
    pub async fn describe(&self) -> Result<Vec<String>, StoreError> {
        match self {
            Self::Sqlite { writer, .. } => sqlite::describe(writer).await,
            Self::Postgres(pool) => postgres::describe(pool).await,
        }
    }

    /// The database's current time; `None` for SQLite, which has no clock.
    #[boxed]
    pub async fn now(&self) -> Result<Option<domain::Timestamp>, StoreError> {
        match self {
            Self::Sqlite { .. } => Ok(None),
            Self::Postgres(_) => scalar("SELECT clock_timestamp()")
                .fetch_one(self)
                .await
                .map(Some)
                .context("ask the database what time it is"),
        }
    }

    /// Faults of the database: on SQLite from a check of every page, index and reference, on PostgreSQL from a read of every row.
    #[boxed]
    pub async fn faults(&self) -> Result<Vec<String>, StoreError> {
        match self {
            Self::Sqlite { readers, .. } => sqlite::faults(readers).await,
            Self::Postgres(pool) => postgres::faults(pool).await,
        }
    }

    /// Puts other timeouts in force: for new statements and connections at once, and for an open connection when it is returned. SQLite
    /// has one of them, `acquire_timeout`; the others are settings of its open connections.
    pub fn retune(&self, settings: &DatabaseSettings) {
        match self {
            Self::Sqlite { readers, .. } => readers.wait_max().set(settings.acquire_timeout),
            Self::Postgres(pool) => pool.retune(settings),
        }
    }

    /// Waits until every connection is returned and closes it; on PostgreSQL for `acquire_timeout` at most. SQLite then updates its
    /// statistics and copies its write-ahead log into the file.
    #[boxed]
    pub async fn close(&self) {
        match self {
            // The writer is closed last: closing the last connection to a file removes the write-ahead log.
            Self::Sqlite { writer, readers, .. } => {
                readers.close().await;
                sqlite::close(writer).await;
            }
            Self::Postgres(pool) => pool.close().await,
        }
    }

    /// Numbers of connections, for metrics.
    pub fn connections(&self) -> Connections {
        match self {
            Self::Sqlite { writer, readers, .. } => {
                let (open, idle) = readers.counts();
                Connections {
                    open: 1 + open,
                    idle: u64::from(writer.is_idle()) + idle,
                    waiting: Some(writer.counts().waiting as u64),
                }
            }
            Self::Postgres(pool) => {
                Connections { open: u64::from(pool.size()), idle: pool.num_idle() as u64, waiting: None }
            }
        }
    }

    /// Commits a write that changes no data, to check that the database accepts writes. Requires [`Self::migrate`].
    #[boxed]
    pub async fn probe_write(&self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite { writer, .. } => sqlite::probe_write(writer).await,
            Self::Postgres(pool) => postgres::probe_write(self, pool.schema).await,
        }
        .context("write to the database")
    }

    /// Copies the write-ahead log of SQLite into the file and truncates it, so that it has no freed text; `false` if a reader prevents that now.
    #[boxed]
    pub async fn truncate_log(&self) -> Result<bool, StoreError> {
        match self {
            Self::Sqlite { writer, .. } => sqlite::truncate_log(writer).await.context("truncate the write-ahead log"),
            Self::Postgres(_) => Ok(true),
        }
    }

    /// Why an SQLite file is not written to: the file at its path is another one or absent. `None` for PostgreSQL.
    pub fn misplaced(&self) -> Option<String> {
        match self {
            Self::Sqlite { file, .. } => file.fault(),
            Self::Postgres(_) => None,
        }
    }

    /// Size in bytes of the write-ahead log of an SQLite file; `None` for PostgreSQL.
    pub fn wal_bytes(&self) -> Option<u64> {
        match self {
            Self::Sqlite { file, .. } => file.log_bytes(),
            Self::Postgres(_) => None,
        }
    }

    /// Counts of the writer, for metrics; `None` for PostgreSQL, which commits each transaction separately.
    pub fn writer_counts(&self) -> Option<WriterCounts> {
        match self {
            Self::Sqlite { writer, .. } => Some(writer.counts()),
            Self::Postgres(_) => None,
        }
    }
}
