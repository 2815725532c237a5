//! The connections on which probes run.

use std::any::Any;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use super::kept::Kept;
use crate::pool::argument::{Argument, bind_arguments};
use crate::pool::file::SqliteFile;

/// Why the pool has to answer.
#[doc(hidden)]
#[derive(Debug)]
pub enum NotInPlace {
    /// SQLite returned an error, or the file is locked.
    Failed(rusqlite::Error),
    /// A column has another encoding. The pool decodes it, or returns the error.
    Unreadable,
    /// More than [`ROWS_MAX`](crate::pool::ROWS_MAX) rows.
    TooMany,
    /// The file is closed.
    Closed,
}

impl From<rusqlite::Error> for NotInPlace {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error)
    }
}

/// A connection for probes.
#[derive(Debug)]
pub(super) struct Reader {
    connection: Connection,
    kept: Kept,
}

/// Connections for probes, opened on first use.
#[derive(Debug)]
pub(in crate::pool) struct Readers {
    connections: Box<[Mutex<Option<Reader>>]>,
    is_closed: AtomicBool,
    /// The last probe failed. Only the first failure of a row of failures is logged.
    is_failing: AtomicBool,
}

thread_local! {
    /// The connection that this thread used last. It is usually free, and its caches are warm.
    static LAST: Cell<usize> = const { Cell::new(0) };
}

impl Readers {
    pub(in crate::pool) fn new(readers_max: u32) -> Self {
        Self {
            connections: (0..readers_max.max(1)).map(|_| Mutex::new(None)).collect(),
            is_closed: AtomicBool::new(false),
            is_failing: AtomicBool::new(false),
        }
    }

    /// Borrows a free connection, preferably the last one of this thread.
    fn borrow(&self) -> MutexGuard<'_, Option<Reader>> {
        let count = self.connections.len();
        let last = LAST.get() % count;
        for place in (last..count).chain(0..last) {
            match self.connections[place].try_lock() {
                Ok(connection) => {
                    LAST.set(place);
                    return connection;
                }
                Err(TryLockError::Poisoned(poisoned)) => return self.reopened(place, poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        // All are in use, for microseconds.
        self.connections[last].lock().unwrap_or_else(|poisoned| self.reopened(last, poisoned.into_inner()))
    }

    /// Closes a connection whose last user panicked.
    fn reopened<'s>(
        &'s self,
        place: usize,
        mut connection: MutexGuard<'s, Option<Reader>>,
    ) -> MutexGuard<'s, Option<Reader>> {
        *connection = None;
        self.connections[place].clear_poison();
        connection
    }

    /// Closes all connections, after their running probes, and opens no more.
    pub(in crate::pool) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        for connection in &self.connections {
            *connection.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// Runs a statement on the calling thread; after any error the pool has to run it.
    pub(super) fn run<T>(
        &self,
        file: &SqliteFile,
        work: impl FnOnce(&mut Reader) -> Result<T, NotInPlace>,
    ) -> Result<T, NotInPlace> {
        let mut slot = self.borrow();
        let done = self.attempt(&mut slot, file, work);
        match &done {
            Ok(_) => {
                if self.is_failing.load(Ordering::Relaxed) {
                    self.is_failing.store(false, Ordering::Relaxed);
                }
            }
            Err(NotInPlace::Failed(error)) => {
                if !is_lock(error) {
                    *slot = None;
                }
                if !self.is_failing.swap(true, Ordering::Relaxed) {
                    let file = file.path().display();
                    tracing::warn!(%file, error = domain::reasons(error), "a short read failed on its own connection; the pool answers instead");
                }
            }
            Err(NotInPlace::Unreadable | NotInPlace::TooMany | NotInPlace::Closed) => {}
        }
        done
    }

    fn attempt<T>(
        &self,
        slot: &mut Option<Reader>,
        file: &SqliteFile,
        work: impl FnOnce(&mut Reader) -> Result<T, NotInPlace>,
    ) -> Result<T, NotInPlace> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(NotInPlace::Closed);
        }
        work(match slot {
            Some(reader) => reader,
            None => slot.insert(Reader { connection: open(file)?, kept: Kept::default() }),
        })
    }
}

impl Reader {
    pub(super) fn read<T>(
        &self,
        sql: &str,
        arguments: &[Argument<'_>],
        read: impl FnOnce(&mut rusqlite::Rows<'_>) -> Result<T, NotInPlace>,
    ) -> Result<T, NotInPlace> {
        let mut statement = self.connection.prepare_cached(sql)?;
        bind_arguments(&mut statement, arguments)?;
        read(&mut statement.raw_query())
    }

    fn read_kept<T: Any + Clone + Send>(
        &mut self,
        sql: &'static str,
        arguments: &[Argument<'_>],
        read: impl FnOnce(&mut rusqlite::Rows<'_>) -> Result<T, NotInPlace>,
    ) -> Result<T, NotInPlace> {
        let Some(key) = self.kept.key(&self.connection, sql, arguments)? else {
            return self.read(sql, arguments, read);
        };
        if let Some(rows) = self.kept.get(&key) {
            return Ok(rows);
        }
        let rows = self.read(sql, arguments, read)?;
        self.kept.keep(key, &rows);
        Ok(rows)
    }
}

/// A lock is temporary. Any other error may be caused by the connection itself.
pub(super) fn is_lock(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Opens a connection without a busy timeout, since a runtime thread must not wait for a lock.
fn open(file: &SqliteFile) -> rusqlite::Result<Connection> {
    let connection = file.reader()?;
    connection.busy_timeout(Duration::ZERO)?;
    Ok(connection)
}

impl SqliteFile {
    pub(in crate::pool) fn in_place<T>(
        &self,
        sql: &str,
        arguments: &[Argument<'_>],
        read: impl FnOnce(&mut rusqlite::Rows<'_>) -> Result<T, NotInPlace>,
    ) -> Option<T> {
        self.readers.run(self, |reader| reader.read(sql, arguments, read)).ok()
    }

    pub(in crate::pool) fn in_place_kept<T: Any + Clone + Send>(
        &self,
        sql: &'static str,
        arguments: &[Argument<'_>],
        read: impl FnOnce(&mut rusqlite::Rows<'_>) -> Result<T, NotInPlace>,
    ) -> Option<T> {
        self.readers.run(self, |reader| reader.read_kept(sql, arguments, read)).ok()
    }
}
