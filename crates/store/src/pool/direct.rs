//! SQLite without a thread between a statement and its caller.
//!
//! A connection of sqlx's own SQLite driver is a thread, and every statement is a message to it and an answer. [`Direct`] is a
//! [`sqlx::Database`] for the same queries (`sqlx::query`, `query_as`, `QueryBuilder`, `FromRow`) that runs a statement in the task that polls
//! it. Values are encoded as sqlx's driver encodes them, so each reads the values of the other.
//!
//! - A statement runs to its end in one poll. A future that is dropped is never dropped in the middle of a statement, and its transaction can
//!   be rolled back at once.
//! - A long statement would block its worker thread of the runtime. A task that has run statements for longer than [`IN_PLACE_MAX`], or that
//!   runs a statement that took longer the last time, calls `block_in_place`, which moves the other tasks to another thread.
//! - Only the writer uses it ([`super::writer`]). `COMMIT`, which waits for the disk, and a `BEGIN IMMEDIATE` that waits for another process
//!   run on the writer's thread.

mod arguments;
mod error;
mod row;

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use rusqlite::Statement;
use rusqlite::fallible_iterator::FallibleIterator;
use sqlx::{ConnectOptions, Connection, Database, Either, Error, Execute, Executor, SqlStr};
use sqlx_core::transaction::TransactionManager;

pub use self::arguments::{DirectArguments, Values};
pub use self::error::DirectError;
pub use self::row::{DirectColumn, DirectDone, DirectRow, DirectStatement, DirectType, DirectValue, DirectValueRef};
use super::argument::{Argument, bind_arguments};
use super::{DatabaseSettings, SqliteFile};

/// Longest time for which a task runs statements before it moves the other tasks of its thread.
const IN_PLACE_MAX: Duration = Duration::from_millis(1);

/// SQLite, with every statement run in the task that polls it.
#[derive(Debug)]
pub struct Direct;

impl Database for Direct {
    type Connection = DirectConnection;
    type TransactionManager = Savepoints;
    type Row = DirectRow;
    type QueryResult = DirectDone;
    type Column = DirectColumn;
    type TypeInfo = DirectType;
    type Value = DirectValue;
    type ValueRef<'r> = DirectValueRef<'r>;
    type Arguments = DirectArguments;
    type ArgumentBuffer = Values;
    type Statement = DirectStatement;

    const NAME: &'static str = "SQLite";
    const URL_SCHEMES: &'static [&'static str] = &["sqlite"];
}

/// A connection whose statements run in the task that polls them.
pub struct DirectConnection {
    connection: rusqlite::Connection,
    /// The first error of the file, such as a full disk.
    fault: Option<DirectError>,
    /// Number of nested transactions.
    depth: usize,
    /// Statements that took longer than [`IN_PLACE_MAX`] when they were last run.
    slow: HashSet<Box<str>>,
    /// When the present user began to run statements.
    since: Instant,
}

impl DirectConnection {
    pub(super) fn new(connection: rusqlite::Connection) -> Self {
        Self { connection, fault: None, depth: 0, slow: HashSet::new(), since: Instant::now() }
    }

    pub(super) fn raw(&mut self) -> &mut rusqlite::Connection {
        &mut self.connection
    }

    /// Runs `work` on the connection itself, for statements that are prepared once and run for many rows.
    pub fn visit<T>(&mut self, work: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        work(&self.connection).map_err(|error| self.failed(&error))
    }

    /// Runs `work` that takes longer than a millisecond, with the other tasks of this thread moved to another one.
    pub fn visit_long<T>(
        &mut self,
        work: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        aside(|| work(&self.connection)).map_err(|error| self.failed(&error))
    }

    /// Runs a statement without parameters or rows.
    pub(super) fn command(&mut self, sql: &str) -> Result<(), DirectError> {
        let done = self.connection.prepare_cached(sql).and_then(|mut statement| statement.raw_execute());
        match done {
            Ok(_) | Err(rusqlite::Error::ExecuteReturnedResults) => Ok(()),
            Err(error) => Err(DirectError::from(&error)),
        }
    }

    /// A new user of the connection begins.
    pub(super) fn begin_use(&mut self) {
        self.since = Instant::now();
    }

    /// The first error of the file or of the memory. A connection that has one must be closed.
    pub(super) fn fault(&self) -> Option<DirectError> {
        self.fault.clone()
    }

    /// Why the connection must be closed: an error of the file or of the memory, or a transaction that SQLite has rolled back.
    pub(super) fn broken(&self) -> Option<DirectError> {
        match &self.fault {
            Some(fault) => Some(fault.clone()),
            None if self.connection.is_autocommit() => Some(DirectError::rolled_back()),
            None => None,
        }
    }

    fn failed(&mut self, error: &rusqlite::Error) -> Error {
        if error.sqlite_error().is_none() {
            return Error::InvalidArgument(error.to_string());
        }
        let error = DirectError::from(error);
        if error.is_of_the_file() && self.fault.is_none() {
            self.fault = Some(error.clone());
        }
        Error::Database(Box::new(error))
    }

    /// A statement that was slow once, because its thread was interrupted or its pages were not in memory, does not stay slow: each
    /// run that moves other tasks costs two switches of threads.
    fn note(&mut self, sql: &str, was_slow: bool, took: Duration) {
        match (was_slow, took > IN_PLACE_MAX) {
            (false, true) => drop(self.slow.insert(sql.into())),
            (true, false) => drop(self.slow.remove(sql)),
            (false, false) | (true, true) => {}
        }
    }

    /// Runs a statement to its end and returns the number of rows that it changed.
    pub(super) fn execute_with(&mut self, sql: &str, arguments: &[Argument<'_>]) -> Result<u64, Error> {
        self.run_with(sql, arguments, usize::MAX).map(|outcome| outcome.done.rows_affected())
    }

    /// Runs a statement and returns its rows, `rows_max` at most.
    pub(super) fn fetch_with(
        &mut self,
        sql: &str,
        arguments: &[Argument<'_>],
        rows_max: usize,
    ) -> Result<Vec<DirectRow>, Error> {
        self.run_with(sql, arguments, rows_max).map(|outcome| outcome.rows)
    }

    fn run_with(&mut self, sql: &str, arguments: &[Argument<'_>], rows_max: usize) -> Result<Outcome, Error> {
        let bind = |statement: &mut Statement<'_>| bind_arguments(statement, arguments);
        self.timed(sql, true, |connection| one(connection, sql, bind, true, rows_max))
    }

    fn run<'q>(&mut self, mut query: impl Execute<'q, Direct>, rows_max: usize) -> Result<Outcome, Error> {
        let arguments = query.take_arguments().map_err(Error::Encode)?;
        let is_persistent = query.persistent();
        let sql = query.sql();
        let sql = sql.as_str();
        self.timed(sql, is_persistent, |connection| match &arguments {
            Some(arguments) => one(connection, sql, |statement| arguments.bind(statement), is_persistent, rows_max),
            None => many(connection, sql, rows_max),
        })
    }

    /// Runs `work`, with the other tasks of this thread moved to another one if it takes long.
    fn timed(
        &mut self,
        sql: &str,
        is_persistent: bool,
        work: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<Outcome>,
    ) -> Result<Outcome, Error> {
        let begun = Instant::now();
        let was_slow = self.slow.contains(sql);
        let is_long = begun.saturating_duration_since(self.since) > IN_PLACE_MAX || was_slow;
        let outcome = if is_long { aside(|| work(&self.connection)) } else { work(&self.connection) };
        if is_persistent {
            self.note(sql, was_slow, begun.elapsed());
        }
        outcome.map_err(|error| self.failed(&error))
    }
}

impl fmt::Debug for DirectConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectConnection").field("fault", &self.fault).finish_non_exhaustive()
    }
}

/// Rows, and rows changed.
struct Outcome {
    rows: Vec<DirectRow>,
    done: DirectDone,
}

/// Moves the other tasks of this worker thread to another one while it runs `work`.
fn aside<T>(work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

fn one(
    connection: &rusqlite::Connection,
    sql: &str,
    bind: impl FnOnce(&mut Statement<'_>) -> rusqlite::Result<()>,
    is_persistent: bool,
    rows_max: usize,
) -> rusqlite::Result<Outcome> {
    let mut rows = Vec::new();
    if is_persistent {
        let mut statement = connection.prepare_cached(sql)?;
        bind(&mut statement)?;
        row::collect(&mut statement, rows_max, &mut rows)?;
    } else {
        let mut statement = connection.prepare(sql)?;
        bind(&mut statement)?;
        row::collect(&mut statement, rows_max, &mut rows)?;
    }
    Ok(Outcome { rows, done: DirectDone::new(connection.changes()) })
}

/// Statements without parameters, one after the other.
fn many(connection: &rusqlite::Connection, sql: &str, rows_max: usize) -> rusqlite::Result<Outcome> {
    let mut rows = Vec::new();
    let before = connection.total_changes();
    let mut statements = rusqlite::Batch::new(connection, sql);
    while let Some(mut statement) = statements.next()? {
        row::collect(&mut statement, rows_max.saturating_sub(rows.len()), &mut rows)?;
    }
    Ok(Outcome { rows, done: DirectDone::new(connection.total_changes().saturating_sub(before)) })
}

impl<'c> Executor<'c> for &'c mut DirectConnection {
    type Database = Direct;

    fn execute<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<DirectDone, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Direct>,
    {
        Box::pin(async move { self.run(query, usize::MAX).map(|outcome| outcome.done) })
    }

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Either<DirectDone, DirectRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Direct>,
    {
        let all = stream::once(async move { self.run(query, usize::MAX) }).map_ok(|Outcome { rows, done }| {
            let rows = rows.into_iter().map(Either::Right);
            stream::iter(rows.chain([Either::Left(done)]).map(Ok))
        });
        all.try_flatten().boxed()
    }

    fn fetch_all<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Vec<DirectRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Direct>,
    {
        Box::pin(async move { self.run(query, usize::MAX).map(|outcome| outcome.rows) })
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<DirectRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Direct>,
    {
        Box::pin(async move { self.run(query, 1).map(|outcome| outcome.rows.into_iter().next()) })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        _parameters: &'e [DirectType],
    ) -> BoxFuture<'e, Result<DirectStatement, Error>>
    where
        'c: 'e,
    {
        Box::pin(async move {
            let prepared = self.connection.prepare_cached(sql.as_str());
            let prepared = prepared.map(|statement| (statement.parameter_count(), row::columns(&statement)));
            match prepared {
                Ok((parameters, columns)) => Ok(DirectStatement::new(sql, parameters, columns)),
                Err(error) => Err(self.failed(&error)),
            }
        })
    }
}

impl Connection for DirectConnection {
    type Database = Direct;
    type Options = DirectOptions;

    async fn close(self) -> Result<(), Error> {
        self.connection.close().map_err(|(_, error)| Error::Database(Box::new(DirectError::from(&error))))
    }

    async fn close_hard(self) -> Result<(), Error> {
        self.close().await
    }

    async fn ping(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn begin(&mut self) -> impl Future<Output = Result<sqlx::Transaction<'_, Direct>, Error>> + Send + '_ {
        sqlx::Transaction::begin(self, None)
    }

    fn shrink_buffers(&mut self) {}

    async fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn should_flush(&self) -> bool {
        false
    }
}

/// Transactions nested in the transaction of the writer.
#[derive(Debug)]
pub struct Savepoints;

impl Savepoints {
    fn run(connection: &mut DirectConnection, sql: &str) -> Result<(), Error> {
        connection.command(sql).map_err(|error| Error::Database(Box::new(error)))
    }
}

impl TransactionManager for Savepoints {
    type Database = Direct;

    async fn begin(connection: &mut DirectConnection, statement: Option<SqlStr>) -> Result<(), Error> {
        if statement.is_some() {
            return Err(Error::InvalidSavePointStatement);
        }
        Self::run(connection, "SAVEPOINT nested")?;
        connection.depth += 1;
        Ok(())
    }

    async fn commit(connection: &mut DirectConnection) -> Result<(), Error> {
        Self::run(connection, "RELEASE nested")?;
        connection.depth -= 1;
        Ok(())
    }

    async fn rollback(connection: &mut DirectConnection) -> Result<(), Error> {
        Self::run(connection, "ROLLBACK TO nested")?;
        Self::run(connection, "RELEASE nested")?;
        connection.depth -= 1;
        Ok(())
    }

    fn start_rollback(connection: &mut DirectConnection) {
        let rolled_back =
            Self::run(connection, "ROLLBACK TO nested").and_then(|()| Self::run(connection, "RELEASE nested"));
        match rolled_back {
            Ok(()) => connection.depth -= 1,
            // The writer rolls the transaction back and closes the connection.
            Err(error) => {
                tracing::debug!(error = domain::reasons(&error), "a transaction could not be rolled back");
                connection.fault.get_or_insert_with(DirectError::rolled_back);
            }
        }
    }

    fn get_transaction_depth(connection: &DirectConnection) -> usize {
        connection.depth
    }
}

/// The file of a connection of its own. The writer opens its connections without it.
#[derive(Debug, Clone)]
pub struct DirectOptions(SqliteFile);

impl FromStr for DirectOptions {
    type Err = Error;

    fn from_str(path: &str) -> Result<Self, Error> {
        Ok(Self(SqliteFile::new(&DatabaseSettings::default(), Path::new(path), false)))
    }
}

impl ConnectOptions for DirectOptions {
    type Connection = DirectConnection;

    fn from_url(url: &sqlx_core::Url) -> Result<Self, Error> {
        url.path().parse()
    }

    async fn connect(&self) -> Result<DirectConnection, Error> {
        let opened = self.0.writer();
        opened.map(DirectConnection::new).map_err(|error| Error::Database(Box::new(DirectError::from(&error))))
    }

    /// Statements are not logged.
    fn log_statements(self, _level: log::LevelFilter) -> Self {
        self
    }

    /// Statements are not logged.
    fn log_slow_statements(self, _level: log::LevelFilter, _duration: Duration) -> Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_slow_until_a_run_of_it_is_quick() {
        const SQL: &str = "SELECT 1";
        let mut connection = DirectConnection::new(rusqlite::Connection::open_in_memory().unwrap());
        for (took, is_slow) in [(0, false), (2, true), (3, true), (1, false), (0, false)] {
            let was_slow = connection.slow.contains(SQL);
            connection.note(SQL, was_slow, Duration::from_millis(took));
            assert_eq!(connection.slow.contains(SQL), is_slow, "after {took} ms");
        }
    }
}
