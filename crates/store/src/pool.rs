//! One way to either database (`docs/decisions/0027-two-databases.md`).
//!
//! SQL is written once and run on both: a [`Pool`] is one or the other, and a statement ([`query`], [`scalar`]) chooses the driver when it
//! runs.
//!
//! | call | where the statement runs |
//! |---|---|
//! | `query(SQL).fetch_all(&pool)` | one statement that reads |
//! | `query(SQL).execute(pool.writer())` | one statement that writes, committed by itself |
//! | `query(SQL).execute(&mut *tx)` | in a transaction: [`in_transaction!`](crate::in_transaction), or a function that takes `tx: &mut` [`Tx`] |
//!
//! A short read through an index is a [`Probe`], `probe(PROBE).fetch_optional(&pool)`, which SQLite answers on the caller's thread.
//!
//! sqlx runs the statements of PostgreSQL, `rusqlite` those of SQLite: a connection of sqlx to SQLite is a thread, and the way of a statement
//! there and back costs several times the CPU of a short statement (`sqlite/connection.rs`).
//!
//! `$1` placeholders, `RETURNING`, `ON CONFLICT`, CTEs and partial indexes work on both. What does not: arrays, `now()`,
//! `FOR UPDATE`, unsigned integers, and sums without `CAST(… AS BIGINT)` (PostgreSQL makes them NUMERIC). Timestamps are bound
//! as [`domain::Timestamp`]: SQLite keeps them as RFC 3339 text, and text of whole milliseconds in UTC sorts as time does
//! (`…:00+00:00` before `…:00.001+00:00`, since `+` comes before `.`).

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
pub use self::postgres::transaction::PgTransaction;
pub use self::postgres::{
    PostgresConnection, PostgresListener, PostgresPool, SCHEMA_OF_LOG, ServerRole, StatementWatch, check_url,
};
pub use self::probe::{Probe, ProbeQuery, ROWS_MAX, not_a_probe, probe};
pub use self::query::{Query, QueryBuilder, ScalarQuery, Script, Target, Values, query, scalar, script};
pub use self::replication::{ServerStatus, Standby};
pub use self::row::{Column, Columns, DatabaseRow, Member};
pub use self::settings::DatabaseSettings;
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
use async_recursion::async_recursion as boxed;

/// How many connections to one database there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// Those that are open.
    pub open: u64,
    /// Those of them that are not in use.
    pub idle: u64,
    /// Writes that wait for their turn; unknown for PostgreSQL.
    pub waiting: Option<u64>,
}

impl Pool {
    /// Connects, and refuses a database whose settings allow it to lose acknowledged writes.
    ///
    /// Without `settings.url` the database is the SQLite file `sqlite_path`, made together with its folder if it is not
    /// there. `schema` is the PostgreSQL schema to work in, made if it is not there; `None` is the server's default.
    /// SQLite has one file per schema instead, so it ignores `schema`.
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

    /// Opens a copy of an SQLite file, such as a backup, for reading alone: nothing beside it or in it changes.
    #[boxed]
    pub async fn open_copy(path: &Path) -> Result<Self, StoreError> {
        sqlite::open_copy(path).await
    }

    /// Copies all committed rows into a new SQLite file, without blocking readers and writers; `false` for
    /// PostgreSQL, which has tools of its own for that.
    #[boxed]
    pub async fn copy_to(&self, path: &Path) -> Result<bool, StoreError> {
        match self {
            Self::Sqlite { file, .. } => sqlite::copy_to(file, path).await.map(|()| true),
            Self::Postgres(_) => Ok(false),
        }
    }

    /// Moves the database out of the way as it is, under a name with `mark` in it: the SQLite file, which is closed, or the PostgreSQL
    /// `schema`. Returns the new name.
    #[boxed]
    pub async fn set_aside(self, schema: &'static str, mark: &str) -> Result<String, StoreError> {
        match &self {
            Self::Sqlite { file, .. } => {
                // The last connection that is closed removes the write-ahead log beside the file.
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

    /// The database's own present; `None` for SQLite, which has no clock of its own.
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

    /// Faults of the database. SQLite reads every page, index and reference of its file. Of PostgreSQL every row of every table
    /// is read, but no index.
    #[boxed]
    pub async fn faults(&self) -> Result<Vec<String>, StoreError> {
        match self {
            Self::Sqlite { readers, .. } => sqlite::faults(readers).await,
            Self::Postgres(pool) => postgres::faults(pool).await,
        }
    }

    /// Waits for every connection to come back and closes it; on PostgreSQL for `acquire_timeout` at most. SQLite then updates its
    /// statistics and folds its log into the file.
    #[boxed]
    pub async fn close(&self) {
        match self {
            // The writer goes last: the last connection to a file removes the log beside it.
            Self::Sqlite { writer, readers, .. } => {
                readers.close().await;
                sqlite::close(writer).await;
            }
            Self::Postgres(pool) => pool.close().await,
        }
    }

    /// How many connections there are, for metrics.
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

    /// Why an SQLite file is not written to: it is not at its path any more. `None` for PostgreSQL.
    pub fn misplaced(&self) -> Option<String> {
        match self {
            Self::Sqlite { file, .. } => file.fault(),
            Self::Postgres(_) => None,
        }
    }

    /// Bytes of the write-ahead log beside an SQLite file; `None` for PostgreSQL.
    pub fn wal_bytes(&self) -> Option<u64> {
        match self {
            Self::Sqlite { file, .. } => file.log_bytes(),
            Self::Postgres(_) => None,
        }
    }

    /// Counts of the writer, for metrics; `None` for PostgreSQL, whose transactions are committed one by one.
    pub fn writer_counts(&self) -> Option<WriterCounts> {
        match self {
            Self::Sqlite { writer, .. } => Some(writer.counts()),
            Self::Postgres(_) => None,
        }
    }
}
