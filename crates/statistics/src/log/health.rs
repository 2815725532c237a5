//! State of the log: whether it accepts writes, whether appends fail, and how many events wait to be signed.

pub(super) mod appends;

use domain::Timestamp;
use store::pool::{probe, query};

use super::error::{During, LogError};
use super::handle::Log;
use super::read::statements;
use super::sql::Dialect;

/// The state of the log, read from its tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogStatus {
    /// Number of leaves in the signed tree.
    pub tree_size: u64,
    /// Time of the last checkpoint.
    pub signed_at: Timestamp,
    /// Number of appended events without a place in the tree.
    pub unplaced: u64,
    /// SQLite: number of events that are not in the indexes yet.
    pub unindexed: u64,
}

impl Log {
    /// Commits a write, to test whether the database accepts any; on SQLite in the writer's thread.
    #[boxed]
    pub async fn writable(&self) -> Result<(), LogError> {
        match &self.writer {
            Some(writer) => writer.probe().await,
            None => Ok(self.pool.probe_write().await?),
        }
    }

    /// Executes the read of a proof, to test whether the database answers short reads.
    #[boxed]
    pub async fn readable(&self) -> Result<(), LogError> {
        probe(statements::TREE).check(&self.pool).await.during("read the signed tree")
    }

    /// Reads tree size, time of the last checkpoint, and the number of waiting events.
    #[boxed]
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

    /// Time and reason of the failure of this process's last append; `None` if it succeeded.
    pub fn append_failure(&self) -> Option<(Timestamp, String)> {
        self.appends.failure()
    }
}
