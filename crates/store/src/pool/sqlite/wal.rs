//! Checkpoints: copies of the write-ahead log into the file, between two groups or on another thread.
//!
//! SQLite's automatic checkpoint (`wal_autocheckpoint`) copies within a `COMMIT`, which delays the members of its group. The hook of
//! [`WalGrowth::watch`] replaces it and only records the length of the log. If the log exceeds its limit, the thread that owns the
//! connection first answers the group, and then copies the log or starts a copy by a [`WalCopier`].

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::{fmt, io};

use rusqlite::Connection;

use super::file::SqliteFile;

/// Size in bytes of the header of each page in the log (<https://www.sqlite.org/fileformat2.html#the_write_ahead_log>).
const FRAME_HEADER_BYTES: u64 = 24;

thread_local! {
    /// Number of pages in the log after the last commit of this thread. Thread-local, because SQLite passes it to a function without state.
    static PAGES: Cell<u64> = const { Cell::new(0) };
}

/// Growth of the log since it was copied. It outlives a connection, so that a failed copy is not retried after every group.
#[derive(Debug, Default)]
pub struct WalGrowth {
    pages: u64,
    /// Number of pages at the last copy.
    copied: u64,
    page_bytes: u64,
}

impl WalGrowth {
    /// Watches the commits of a new connection, and disables its automatic checkpoints.
    pub fn watch(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.page_bytes = connection.pragma_query_value(None, "page_size", |row| row.get::<_, u32>(0))?.into();
        connection.wal_hook(Some(|_, pages| {
            PAGES.set(pages.unsigned_abs().into());
            Ok(())
        }));
        Ok(())
    }

    /// Reads the length that the last commit of this thread recorded.
    pub fn committed(&mut self) {
        self.pages = PAGES.get();
        if self.pages < self.copied {
            // The log was overwritten from its start.
            self.copied = 0;
        }
    }

    /// Whether the log has grown by this number of bytes.
    pub fn has_grown_by(&self, bytes: u64) -> bool {
        self.bytes(self.pages - self.copied) >= bytes
    }

    /// Length of the log, in bytes.
    pub fn length(&self) -> u64 {
        self.bytes(self.pages)
    }

    fn bytes(&self, pages: u64) -> u64 {
        pages.saturating_mul(self.page_bytes + FRAME_HEADER_BYTES)
    }

    /// Records that another connection copies the log up to its current end.
    pub fn mark(&mut self) {
        self.copied = self.pages;
    }

    /// Copies as much of the log as possible, without waiting for readers.
    pub fn copy(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.mark();
        checkpoint(connection)
    }
}

fn checkpoint(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}

/// Copies the write-ahead log of a file on a separate thread and connection, while another connection appends to it.
///
/// SQLite overwrites the log from its start only after all of it was copied. If the owner of the other connection appends continuously,
/// the last frames are missing from each copy, so the owner copies these few frames itself.
pub struct WalCopier {
    /// `None` after it is dropped.
    ask: Option<Sender<()>>,
    is_busy: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl WalCopier {
    /// Starts the thread, which opens its connection for the first copy.
    pub fn start(file: SqliteFile) -> io::Result<Self> {
        let (ask, asked) = mpsc::channel();
        let is_busy = Arc::<AtomicBool>::default();
        let is_copying = Arc::clone(&is_busy);
        let work = move || {
            let mut connection = None;
            for () in asked {
                if let Err(error) = copy(&file, &mut connection) {
                    let file = file.path().display();
                    tracing::warn!(%file, error = domain::reasons(&error), "the write-ahead log could not be copied into the file; it grows until it can");
                    connection = None;
                }
                is_copying.store(false, Ordering::Release);
            }
        };
        let thread = thread::Builder::new().name("attache-wal".to_owned()).spawn(work)?;
        Ok(Self { ask: Some(ask), is_busy, thread: Some(thread) })
    }

    /// Whether a copy is in progress.
    pub fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Acquire)
    }

    /// Starts a copy.
    pub fn begin(&self) {
        self.is_busy.store(true, Ordering::Release);
        if self.ask.as_ref().is_none_or(|ask| ask.send(()).is_err()) {
            self.is_busy.store(false, Ordering::Release);
        }
    }
}

fn copy(file: &SqliteFile, connection: &mut Option<Connection>) -> rusqlite::Result<()> {
    let connection = match connection {
        Some(connection) => connection,
        none => none.insert(file.writer()?),
    };
    checkpoint(connection)
}

impl fmt::Debug for WalCopier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WalCopier")
    }
}

/// Waits for the copy in progress, so that the connection is closed afterwards.
impl Drop for WalCopier {
    fn drop(&mut self) {
        self.ask = None;
        if let Some(thread) = self.thread.take() {
            // The panic was reported where it occurred.
            drop(thread.join());
        }
    }
}
