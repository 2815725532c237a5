//! Statements of SQLite, executed without a separate thread.
//!
//! In sqlx's SQLite driver a connection is a thread, and every statement is a message to it and back, which costs several times the CPU
//! time of a short statement. Therefore `rusqlite` runs every statement of SQLite: writes on [`SqliteConnection`], in the task that polls
//! them, and reads on the connections of [`SqliteReaders`](super::readers::SqliteReaders).
//!
//! - A statement of the writer runs to its end in one poll, so a future is never dropped in the middle of a statement, and its transaction
//!   can be rolled back at once.
//! - A long statement would block its worker thread of the runtime. A task that has run statements for longer than [`IN_PLACE_MAX`], or
//!   that runs a statement that took longer the last time, calls `block_in_place`, which moves the other tasks to another thread.
//! - `COMMIT`, which waits for the disk, and a `BEGIN IMMEDIATE` that waits for another process run on the writer's thread.

use std::collections::HashSet;
use std::fmt;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::fallible_iterator::FallibleIterator;
use sqlx::Error;

use super::error::{SqliteError, driver_error};
use crate::pool::argument::Arguments;
use crate::pool::row::{Columns, Decoder};

/// Maximum time for which a task runs statements before it moves the other tasks of its thread.
const IN_PLACE_MAX: Duration = Duration::from_millis(1);

/// The connection that writes.
pub struct SqliteConnection {
    connection: Connection,
    /// The first error of the file, such as a full disk.
    fault: Option<SqliteError>,
    /// Statements that took longer than [`IN_PLACE_MAX`] when they were last run.
    slow: HashSet<Box<str>>,
    /// Time at which the current user started to run statements.
    since: Instant,
}

impl SqliteConnection {
    pub(super) fn new(connection: Connection) -> Self {
        Self { connection, fault: None, slow: HashSet::new(), since: Instant::now() }
    }

    pub(super) fn raw(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Runs `work` on the connection itself.
    pub(super) fn visit<T>(&mut self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        work(&self.connection).map_err(|error| self.failed(&error))
    }

    /// Runs `work` that takes longer than a millisecond, with the other tasks of this thread moved to another one.
    pub(super) fn visit_long<T>(&mut self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        aside(|| work(&self.connection)).map_err(|error| self.failed(&error))
    }

    /// Runs a statement without parameters or rows.
    pub(super) fn command(&mut self, sql: &str) -> Result<(), SqliteError> {
        let result = self.connection.prepare_cached(sql).and_then(|mut statement| statement.raw_execute());
        match result {
            Ok(_) | Err(rusqlite::Error::ExecuteReturnedResults) => Ok(()),
            Err(error) => Err(SqliteError::from(&error)),
        }
    }

    /// Starts a new use of the connection.
    pub(super) fn begin_use(&mut self) {
        self.since = Instant::now();
    }

    /// The first error of the file or of the memory. A connection with such an error must be closed.
    pub(super) fn fault(&self) -> Option<SqliteError> {
        self.fault.clone()
    }

    /// Why the connection must be closed: an error of the file or of the memory, or a transaction that SQLite has rolled back.
    pub(super) fn broken(&self) -> Option<SqliteError> {
        match &self.fault {
            Some(fault) => Some(fault.clone()),
            None if self.connection.is_autocommit() => Some(SqliteError::rolled_back()),
            None => None,
        }
    }

    fn failed(&mut self, error: &rusqlite::Error) -> Error {
        let fault = SqliteError::from(error);
        if fault.is_file_error() {
            self.fault.get_or_insert(fault);
        }
        driver_error(error)
    }

    /// A statement that was slow once, for example because its pages were not in memory, does not remain marked as slow: each run that
    /// moves other tasks costs two thread switches.
    fn note(&mut self, sql: &str, was_slow: bool, took: Duration) {
        match (was_slow, took > IN_PLACE_MAX) {
            (false, true) => drop(self.slow.insert(sql.into())),
            (true, false) => drop(self.slow.remove(sql)),
            (false, false) | (true, true) => {}
        }
    }

    /// Runs a statement like [`run`], and returns the number of changed rows.
    pub(in crate::pool) fn run(
        &mut self,
        sql: &str,
        arguments: &Arguments<'_>,
        rows_max: usize,
        rows: &mut dyn Decoder,
    ) -> Result<u64, Error> {
        let begun = Instant::now();
        let was_slow = self.slow.contains(sql);
        let changed = self.timed(begun, was_slow, |connection| {
            run(connection, sql, arguments, rows_max, rows).map(|()| connection.changes())
        });
        self.note(sql, was_slow, begun.elapsed());
        changed
    }

    /// Runs statements without parameters one after the other, and returns the number of changed rows.
    pub(in crate::pool) fn run_script(&mut self, sql: &str) -> Result<u64, Error> {
        self.timed(Instant::now(), false, |connection| {
            let start = connection.total_changes();
            let mut statements = rusqlite::Batch::new(connection, sql);
            while let Some(mut statement) = statements.next()? {
                let mut rows = statement.raw_query();
                while rows.next()?.is_some() {}
            }
            Ok(connection.total_changes().saturating_sub(start))
        })
    }

    /// Runs `work`, and moves the other tasks of this thread to another one if it takes long.
    fn timed<T>(
        &mut self,
        begun: Instant,
        was_slow: bool,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        let is_long = was_slow || begun.saturating_duration_since(self.since) > IN_PLACE_MAX;
        if is_long { self.visit_long(work) } else { self.visit(work) }
    }
}

impl fmt::Debug for SqliteConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteConnection").field("fault", &self.fault).finish_non_exhaustive()
    }
}

/// Runs a statement until `rows_max` rows or its end.
pub(super) fn run(
    connection: &Connection,
    sql: &str,
    arguments: &Arguments<'_>,
    rows_max: usize,
    into: &mut dyn Decoder,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(sql)?;
    arguments.bind(&mut statement)?;
    let mut rows = statement.raw_query();
    let mut rows_left = rows_max;
    while rows_left > 0
        && let Some(row) = rows.next()?
    {
        into.take(&mut Columns::of_sqlite(row));
        rows_left -= 1;
    }
    Ok(())
}

/// Moves the other tasks of this worker thread to another one while it runs `work`.
fn aside<T>(work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_slow_until_a_run_of_it_is_quick() {
        const SQL: &str = "SELECT 1";
        let mut connection = SqliteConnection::new(Connection::open_in_memory().unwrap());
        for (took, is_slow) in [(0, false), (2, true), (3, true), (1, false), (0, false)] {
            let was_slow = connection.slow.contains(SQL);
            connection.note(SQL, was_slow, Duration::from_millis(took));
            assert_eq!(connection.slow.contains(SQL), is_slow, "after {took} ms");
        }
    }
}
