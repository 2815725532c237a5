//! Checkpoints: copies of the write-ahead log into the file, between two groups or on another thread.
//!
//! SQLite's own limit (`wal_autocheckpoint`) copies within a `COMMIT`, for which the members of its group wait. The hook of
//! [`WalGrowth::watch`] replaces that limit and only notes the length of the log. Once the log exceeds its limit, the thread that owns the
//! connection answers the group, and then copies or has a [`WalCopier`] copy.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::{fmt, io};

use rusqlite::Connection;

use super::file::SqliteFile;

/// Bytes of the header that each page has in the log (<https://www.sqlite.org/fileformat2.html#the_write_ahead_log>).
const FRAME_HEADER_BYTES: u64 = 24;

thread_local! {
    /// Pages in the log after the last commit of this thread. SQLite passes them to a function without any state.
    static PAGES: Cell<u64> = const { Cell::new(0) };
}

/// How far the log has grown since it was copied. It outlives a connection, so that a copy that fails is not tried after every group.
#[derive(Debug, Default)]
pub struct WalGrowth {
    pages: u64,
    /// Pages in it when it was last copied.
    copied: u64,
    page_bytes: u64,
}

impl WalGrowth {
    /// Watches the commits of a new connection, which copy nothing from now on.
    pub fn watch(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.page_bytes = connection.pragma_query_value(None, "page_size", |row| row.get::<_, u32>(0))?.into();
        connection.wal_hook(Some(|_, pages| {
            PAGES.set(pages.unsigned_abs().into());
            Ok(())
        }));
        Ok(())
    }

    /// Takes over the length that the last commit of this thread noted.
    pub fn committed(&mut self) {
        self.pages = PAGES.get();
        if self.pages < self.copied {
            // The log is written from its beginning again.
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

    /// Notes that another connection copies the log up to its present end.
    pub fn mark(&mut self) {
        self.copied = self.pages;
    }

    /// Copies as much of the log as no reader needs in its place, without waiting for anyone.
    pub fn copy(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.mark();
        checkpoint(connection)
    }
}

fn checkpoint(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}

/// Copies the write-ahead log of a file on a thread and a connection of its own, while the owner of another connection appends to it.
///
/// SQLite overwrites the log from its beginning only after all of it was copied. While the owner appends without pause, the frames that it
/// appended during the last copy are missing, so the owner copies these few itself.
pub struct WalCopier {
    /// `None` once it is dropped.
    ask: Option<Sender<()>>,
    is_busy: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl WalCopier {
    /// Starts the thread, which opens its connection with the first copy.
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

    /// Whether a copy is under way.
    pub fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Acquire)
    }

    /// Begins a copy.
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

/// Waits for the copy that is under way, so that the connection is closed afterwards.
impl Drop for WalCopier {
    fn drop(&mut self) {
        self.ask = None;
        if let Some(thread) = self.thread.take() {
            // A panic was reported where it occurred.
            drop(thread.join());
        }
    }
}
