//! How the log is: whether it takes writes, whether appends fail, and how far signing is behind.

use std::sync::{Mutex, PoisonError};

use domain::Timestamp;
use store::pool::query;

use super::read::statements;
use super::sql::Dialect;
use super::{During, Log, LogError};

/// The state of the log, read from its tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogStatus {
    /// Leaves in the signed tree.
    pub tree_size: u64,
    /// When the last checkpoint was signed.
    pub signed_at: Timestamp,
    /// Events that were taken and have no place in the tree yet.
    pub unplaced: u64,
    /// SQLite: events that the tables written behind the log do not have yet.
    pub unindexed: u64,
}

/// The failure of the last append of this process; nothing when that succeeded.
#[derive(Debug, Default)]
pub(super) struct Appends(Mutex<Option<(Timestamp, String)>>);

impl Log {
    /// Commits a write, to learn whether the database takes any; on SQLite by the thread that appends.
    pub async fn writable(&self) -> Result<(), LogError> {
        match &self.writer {
            Some(writer) => writer.probe().await,
            None => Ok(self.pool.probe_write().await?),
        }
    }

    /// Reads as requests for proofs do, to test whether the database answers short reads.
    pub async fn readable(&self) -> Result<(), LogError> {
        self.pool.try_probe(statements::TREE, &[]).await.during("read the signed tree")
    }

    /// Tree, last signature, and events that wait for their place.
    pub async fn standing(&self) -> Result<LogStatus, LogError> {
        let (size, signed_at, unplaced, unindexed): (i64, Timestamp, i64, i64) = query(Dialect::of(&self.pool).status)
            .fetch_one(&self.pool)
            .await
            .during("read how far the log is signed")?;
        let number = |value: i64, column| u64::try_from(value).map_err(|_| LogError::Corrupt(column));
        Ok(LogStatus {
            tree_size: number(size, "tree.size")?,
            signed_at,
            unplaced: number(unplaced, "events.id")?,
            unindexed: number(unindexed, "indexed.events")?,
        })
    }

    /// When and why the last append of this process failed; `None` when it succeeded.
    pub fn append_failure(&self) -> Option<(Timestamp, String)> {
        self.appends.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Appends {
    /// Notes how an append ended. A group that was rejected because of its content is no failure of the log.
    pub(super) fn note<T>(&self, appended: &Result<T, LogError>, now: Timestamp) {
        let failure = match appended {
            Ok(_) => None,
            Err(error) if error.is_unavailable() => Some((now, domain::reasons(error))),
            Err(_) => return,
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }
}
