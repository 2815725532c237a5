//! The connections that read an SQLite file.
//!
//! - A probe reads a few rows through indexes. It runs on the calling thread, on a connection borrowed for a few microseconds, because
//!   passing a statement to another thread and back costs ten times the CPU time of an index lookup. A connection for probes does not wait
//!   for locks.
//! - Every other read runs on a blocking thread of the runtime and waits for a lock for `busy_timeout`. Dropping its future interrupts it.
//!   At most `readers_max` such reads run at the same time; the others wait for `acquire_timeout`.
//!
//! The two kinds use separate connections, so that a long read does not delay probes. They are opened on first use and closed after an
//! error.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use domain::live::Live;
use rusqlite::{Connection, ErrorCode};
use sqlx::{Error, SqlStr};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::connection::run;
use super::error::driver_error;
use super::file::SqliteFile;
use super::kept::Kept;
use crate::pool::argument::Arguments;
use crate::pool::row::Decoder;

/// Steps of SQLite's virtual machine after which a read checks whether its future was dropped: about 100 µs.
const STEPS_BETWEEN_CHECKS: i32 = 10_000;

/// Read-only connections. Clones share them.
#[derive(Clone)]
pub struct SqliteReaders(Arc<Shared>);

struct Shared {
    file: SqliteFile,
    /// Timeout of waiting for a connection.
    wait_max: Live<Duration>,
    readers_max: u32,
    /// Connections of probes.
    probes: Box<[Mutex<Option<Reader>>]>,
    /// Whether the last probe failed. Only the first of consecutive failures is logged.
    is_failing: AtomicBool,
    is_closed: AtomicBool,
    /// Permits for reads that are not probes.
    permits: Arc<Semaphore>,
    /// Idle connections of these reads.
    idle: Mutex<Vec<Connection>>,
}

/// A connection for probes.
#[derive(Debug)]
pub(in crate::pool) struct Reader {
    pub(in crate::pool) connection: Connection,
    pub(in crate::pool) kept: Kept,
}

/// Why a probe has to run like any other read.
#[derive(Debug)]
pub(in crate::pool) enum NotInPlace {
    /// SQLite returned an error, or the file is locked.
    Failed(rusqlite::Error),
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

thread_local! {
    /// Index of the connection of this thread's last probe. It is usually free, and its caches are warm.
    static LAST: Cell<usize> = const { Cell::new(0) };
}

impl SqliteReaders {
    pub(super) fn new(file: SqliteFile, readers_max: u32, wait_max: impl Into<Live<Duration>>) -> Self {
        let readers_max = readers_max.max(1);
        Self(Arc::new(Shared {
            file,
            wait_max: wait_max.into(),
            readers_max,
            probes: (0..readers_max).map(|_| Mutex::new(None)).collect(),
            is_failing: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            permits: Arc::new(Semaphore::new(readers_max as usize)),
            idle: Mutex::default(),
        }))
    }

    /// Timeout of waiting for a connection.
    pub(in crate::pool) fn wait_max(&self) -> &Live<Duration> {
        &self.0.wait_max
    }

    /// Runs a statement and returns at most `rows_max` decoded rows.
    pub(in crate::pool) async fn run(
        &self,
        sql: SqlStr,
        arguments: Arguments<'static>,
        rows_max: usize,
        mut rows: Box<dyn Decoder>,
    ) -> Result<Box<dyn Decoder>, Error> {
        let read = move |connection: &Connection| {
            run(connection, sql.as_str(), &arguments, rows_max, &mut *rows)?;
            Ok(rows)
        };
        self.visit(read).await
    }

    /// Runs `work` with a connection on a blocking thread. Dropping this future interrupts it.
    pub async fn visit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let wait_max = **self.0.wait_max.get();
        let permit = match timeout(wait_max, Arc::clone(&self.0.permits).acquire_owned()).await {
            Ok(permit) => permit.map_err(|_| Error::PoolClosed)?,
            Err(_) => return Err(Error::PoolTimedOut),
        };
        let caller = Arc::new(());
        let is_dropped = {
            let caller = Arc::downgrade(&caller);
            move || caller.strong_count() == 0
        };
        let shared = Arc::clone(&self.0);
        let read = spawn_blocking(move || {
            let read = shared.read(is_dropped, work);
            drop(permit);
            read
        });
        // The panic was reported where it occurred.
        read.await.map_err(|_| Error::WorkerCrashed)?.map_err(|error| driver_error(&error))
    }

    /// Runs `work` on the calling thread. It must be short.
    pub(in crate::pool) fn in_place<T>(
        &self,
        work: impl FnOnce(&mut Reader) -> Result<T, NotInPlace>,
    ) -> Result<T, NotInPlace> {
        self.0.in_place(work)
    }

    /// Closes all connections after the running reads. All later reads fail.
    pub(in crate::pool) async fn close(&self) {
        self.0.is_closed.store(true, Ordering::SeqCst);
        for reader in &self.0.probes {
            *reader.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        self.close_beside_probes().await;
    }

    /// Closes the connections of reads that are not probes, for tests.
    #[doc(hidden)]
    pub async fn close_beside_probes(&self) {
        // An error means that they were closed before.
        let all: Result<SemaphorePermit<'_>, _> = self.0.permits.acquire_many(self.0.readers_max).await;
        self.0.permits.close();
        self.0.idle().clear();
        drop(all);
    }

    /// Number of open connections, and of the idle ones among these. Connections of probes always count as idle.
    pub(in crate::pool) fn counts(&self) -> (u64, u64) {
        let idle = self.0.idle().len() as u64;
        let in_use = u64::from(self.0.readers_max).saturating_sub(self.0.permits.available_permits() as u64);
        (idle + in_use, idle)
    }
}

impl fmt::Debug for SqliteReaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteReaders").field("file", &self.0.file.path()).finish_non_exhaustive()
    }
}

impl Shared {
    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(
        &self,
        is_dropped: impl FnMut() -> bool + Send + 'static,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let idle = self.idle().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.file.reader()?,
        };
        connection.progress_handler(STEPS_BETWEEN_CHECKS, Some(is_dropped))?;
        let read = work(&connection);
        connection.progress_handler(0, None::<fn() -> bool>)?;
        let is_healthy = read.as_ref().err().is_none_or(is_temporary);
        if is_healthy && connection.is_autocommit() {
            self.idle().push(connection);
        }
        read
    }

    /// Borrows a free connection for a probe, preferably the last one of this thread.
    fn borrow(&self) -> MutexGuard<'_, Option<Reader>> {
        let count = self.probes.len();
        let last = LAST.get() % count;
        for place in (last..count).chain(0..last) {
            match self.probes[place].try_lock() {
                Ok(reader) => {
                    LAST.set(place);
                    return reader;
                }
                Err(TryLockError::Poisoned(poisoned)) => return self.reopened(place, poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        // All are in use, for microseconds.
        self.probes[last].lock().unwrap_or_else(|poisoned| self.reopened(last, poisoned.into_inner()))
    }

    /// Closes a connection if its last user panicked.
    fn reopened<'s>(
        &'s self,
        place: usize,
        mut reader: MutexGuard<'s, Option<Reader>>,
    ) -> MutexGuard<'s, Option<Reader>> {
        *reader = None;
        self.probes[place].clear_poison();
        reader
    }

    fn in_place<T>(&self, work: impl FnOnce(&mut Reader) -> Result<T, NotInPlace>) -> Result<T, NotInPlace> {
        let read = self.borrow_open().and_then(|mut slot| {
            let read = slot.as_mut().map_or(Err(NotInPlace::Closed), work);
            if matches!(&read, Err(NotInPlace::Failed(error)) if !is_temporary(error)) {
                *slot = None;
            }
            read
        });
        match &read {
            Ok(_) => {
                if self.is_failing.load(Ordering::Relaxed) {
                    self.is_failing.store(false, Ordering::Relaxed);
                }
            }
            Err(NotInPlace::Failed(error)) => {
                if !self.is_failing.swap(true, Ordering::Relaxed) {
                    let file = self.file.path().display();
                    tracing::warn!(%file, error = domain::reasons(error), "a short read failed in place; it is repeated like any other read");
                }
            }
            Err(NotInPlace::TooMany | NotInPlace::Closed) => {}
        }
        read
    }

    /// Borrows a connection for a probe, and opens it if necessary. If none can be opened, as after the file was moved away, it is one that
    /// was opened before, even if it is in use.
    fn borrow_open(&self) -> Result<MutexGuard<'_, Option<Reader>>, NotInPlace> {
        let mut slot = self.borrow();
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(NotInPlace::Closed);
        }
        if slot.is_some() {
            return Ok(slot);
        }
        match self.open() {
            Ok(reader) => {
                *slot = Some(reader);
                Ok(slot)
            }
            Err(error) => {
                // Two threads that held an empty slot and waited for each other's would wait for ever.
                drop(slot);
                let open = self.probes.iter().filter_map(|probe| probe.lock().ok()).find(|slot| slot.is_some());
                open.ok_or(NotInPlace::Failed(error))
            }
        }
    }

    fn open(&self) -> rusqlite::Result<Reader> {
        let connection = self.file.reader()?;
        // A runtime thread must not wait for a lock.
        connection.busy_timeout(Duration::ZERO)?;
        Ok(Reader { connection, kept: Kept::default() })
    }
}

impl Reader {
    pub(in crate::pool) fn run(
        &self,
        sql: &str,
        arguments: &Arguments<'_>,
        rows_max: usize,
        rows: &mut dyn Decoder,
    ) -> rusqlite::Result<()> {
        run(&self.connection, sql, arguments, rows_max, rows)
    }
}

/// Whether the file was locked, or the read was interrupted. Any other error may be caused by the connection itself.
pub(in crate::pool) fn is_temporary(error: &rusqlite::Error) -> bool {
    use ErrorCode::{DatabaseBusy, DatabaseLocked, OperationInterrupted};
    matches!(error.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked | OperationInterrupted))
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::{Context, Waker};

    use super::*;
    use crate::pool::{DatabaseSettings, Target, scalar};

    /// Longer than any statement of these tests.
    const LONG: Duration = Duration::from_mins(1);

    fn readers(folder: &tempfile::TempDir, readers_max: u32, wait_max: Duration) -> SqliteReaders {
        let path = folder.path().join("facts.db");
        std::fs::File::create(&path).unwrap();
        SqliteReaders::new(SqliteFile::new(&DatabaseSettings::default(), &path, false), readers_max, wait_max)
    }

    fn one_reader(folder: &tempfile::TempDir, wait_max: Duration) -> SqliteReaders {
        readers(folder, 1, wait_max)
    }

    async fn one(readers: &SqliteReaders) -> Result<i64, Error> {
        scalar("SELECT 1").fetch_one(Target::SqliteReader(readers)).await
    }

    #[tokio::test]
    async fn a_read_whose_future_is_dropped_is_interrupted() {
        const ENDLESS: &str = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n) SELECT COUNT(*) FROM n";
        let folder = tempfile::tempdir().unwrap();
        let readers = one_reader(&folder, LONG);
        {
            let mut endless = pin!(scalar(ENDLESS).fetch_one::<i64>(Target::SqliteReader(&readers)));
            assert!(endless.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        assert_eq!(one(&readers).await.unwrap(), 1);
        assert_eq!(readers.counts(), (1, 1));
    }

    #[tokio::test]
    async fn a_read_waits_for_a_connection_only_so_long_and_a_probe_waits_for_none() {
        let folder = tempfile::tempdir().unwrap();
        let readers = one_reader(&folder, Duration::from_millis(10));
        let (release, released) = mpsc::channel::<()>();
        let (holder, begun) = (readers.clone(), Arc::new(tokio::sync::Notify::new()));
        let begins = Arc::clone(&begun);
        let held = tokio::spawn(async move {
            let hold = move |_: &Connection| {
                begins.notify_one();
                // An error means that the test has failed.
                let _ = released.recv();
                Ok(())
            };
            holder.visit(hold).await
        });
        begun.notified().await;
        assert_eq!(readers.counts(), (1, 0));
        assert!(matches!(one(&readers).await, Err(Error::PoolTimedOut)));
        readers.in_place(|reader| Ok(reader.connection.execute_batch("SELECT 1")?)).unwrap();
        release.send(()).unwrap();
        held.await.unwrap().unwrap();
        assert_eq!(one(&readers).await.unwrap(), 1);
        assert_eq!(readers.counts(), (1, 1));
        readers.close().await;
        assert!(matches!(one(&readers).await, Err(Error::PoolClosed)));
        assert!(matches!(readers.in_place(|_| Ok(())), Err(NotInPlace::Closed)));
    }

    #[test]
    fn probes_of_a_file_that_was_moved_away_share_the_connections_that_are_open() {
        let folder = tempfile::tempdir().unwrap();
        let readers = &readers(&folder, 2, LONG);
        let look = |reader: &mut Reader| Ok(reader.connection.execute_batch("SELECT 1")?);
        let (begins, begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let hold = move |reader: &mut Reader| {
                    begins.send(()).unwrap();
                    released.recv().unwrap();
                    look(reader)
                };
                readers.in_place(hold).unwrap();
            });
            begun.recv().unwrap();
            std::fs::rename(folder.path().join("facts.db"), folder.path().join("away.db")).unwrap();
            let probe = scope.spawn(move || readers.in_place(look));
            // The probe finds the connection in use.
            std::thread::sleep(Duration::from_millis(50));
            release.send(()).unwrap();
            probe.join().unwrap().unwrap();
        });
    }

    #[tokio::test]
    async fn a_connection_that_failed_or_is_within_a_transaction_is_not_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let readers = one_reader(&folder, LONG);
        for sql in ["BEGIN", "SELECT fact FROM nowhere"] {
            assert_eq!(one(&readers).await.unwrap(), 1);
            assert_eq!(readers.counts(), (1, 1));
            let result = readers.visit(move |connection| connection.execute_batch(sql)).await;
            assert_eq!(result.is_ok(), sql == "BEGIN");
            assert_eq!(readers.counts(), (0, 0), "{sql}");
        }
    }
}
