//! Copies of the write-ahead log into the file, between two groups.
//!
//! SQLite's own limit (`wal_autocheckpoint`) copies within a `COMMIT`, for which the members of its group wait. The hook of
//! [`WalGrowth::watch`] replaces that limit and only notes how long the log is. Once the log has grown by `database.wal_bytes` or
//! `log.wal_bytes`, the thread that owns the connection answers the group and then copies. Only the next group waits.

use std::cell::Cell;

use rusqlite::Connection;

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

    /// Takes over what the commit on this thread noted.
    pub fn committed(&mut self) {
        self.pages = PAGES.get();
        if self.pages < self.copied {
            // The log is written from its beginning again.
            self.copied = 0;
        }
    }

    /// Whether the log has grown by so many bytes.
    pub fn is_over(&self, bytes: u64) -> bool {
        (self.pages - self.copied).saturating_mul(self.page_bytes + FRAME_HEADER_BYTES) >= bytes
    }

    /// Copies as much of the log as no reader needs in its place, without waiting for anyone.
    pub fn copy(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.copied = self.pages;
        connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
    }
}
