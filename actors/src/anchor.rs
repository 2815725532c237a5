//! Remembers the newest checkpoint of the embedded log in the main database, so that a log that was replaced or shrank is noticed.
//!
//! 1. Every few seconds (`log.remember_every`), and when the server stops, the log is compared with the checkpoint that the main database
//!    remember.
//! 2. A checkpoint that continues it is written to the main database: one small transaction, and none while the log does not grow.
//! 3. One that does not continue it is not written, and the passes fail until an operator has looked.
//!
//! 4. On PostgreSQL the node's file gets the newest checkpoint too; the passes that sign write it more often.
//!
//! So a start after a crash compares the log with a checkpoint that may be `log.remember_every` old. A log that lost only later checkpoints is
//! noticed by clients that saw them, not by the start.
//!
//! **If it crashes:** the next pass reads the remembered checkpoint from the main database.

use async_recursion::async_recursion as boxed;
use domain::Clock;
use statistics::log::{Continuity, Log, LogError, LogHead, MemoryFault};
use store::installation::RememberedLog;
use store::{Store, StoreError};
use supervision::periodic::{Next, Pass, PassError};

/// From the log to the main database.
#[derive(Debug, Clone)]
pub struct Anchor {
    /// The main database.
    pub store: Store,
    /// The embedded log whose checkpoint is compared.
    pub log: Log,
    /// The clock of the server.
    pub clock: Clock,
}

/// Why the newest checkpoint is not remembered.
#[derive(Debug, thiserror::Error)]
pub enum NotRemembered {
    /// The main database could not be read or written.
    #[error("the main database cannot be written")]
    Store(#[from] StoreError),
    /// The database of the log could not be read.
    #[error("the log cannot be read")]
    Log(#[from] LogError),
    /// The node's file could not be written.
    #[error("the newest checkpoint cannot be remembered outside of the database")]
    File(#[from] MemoryFault),
    /// The remembered checkpoint cannot be parsed.
    #[error("the checkpoint that the main database remembers cannot be read")]
    Unreadable,
    /// The log is not the one that it was.
    #[error(
        "the log no longer continues its checkpoint of {size} events, which this server has seen: its database was replaced or rolled \
         back. Stop every server and restart one, which compares the log with the main database and names the ways out"
    )]
    Replaced {
        /// Leaves of the checkpoint.
        size: u64,
    },
}

impl Anchor {
    /// Stores the newest checkpoint of the log, if it continues the stored one.
    #[boxed]
    pub async fn settle(&self) -> Result<(), NotRemembered> {
        // The file does not depend on the database, and the main database does not depend on the file.
        let outside = self.log.remember(true).await;
        self.settle_facts().await?;
        Ok(outside?)
    }

    async fn settle_facts(&self) -> Result<(), NotRemembered> {
        // Read before the log, which was that large by then.
        let known = self.store.installation().await?.and_then(|installation| installation.log);
        let head = remembered(self.log.head().await?);
        if known.as_ref() == Some(&head) {
            return Ok(());
        }
        // Another key is that of an epoch, which the start with `--new-log` writes to the main database itself.
        if let Some(known) = known.filter(|known| known.vkey == head.vkey)
            && !self.is_continued(&known).await?
        {
            return Err(NotRemembered::Replaced { size: known.size });
        }
        self.store.installation_remember(&head, self.clock.now()).await?;
        Ok(())
    }

    async fn is_continued(&self, known: &RememberedLog) -> Result<bool, NotRemembered> {
        let seen = known.opened().ok_or(NotRemembered::Unreadable)?;
        Ok(self.log.continues(&known.vkey, &seen).await? == Continuity::Continues)
    }
}

/// The form in which the main database stores a checkpoint.
pub fn remembered(LogHead { vkey, checkpoint, size }: LogHead) -> RememberedLog {
    RememberedLog { vkey, checkpoint, size }
}

impl Pass for Anchor {
    type Memory = ();

    async fn run(&self, (): &mut ()) -> Result<Next, PassError> {
        domain::failpoint!("anchor.pass");
        self.settle().await?;
        // It rests until the local sequencer makes the tree grow; other nodes remember the checkpoints that they sign.
        Ok(Next::Idle)
    }
}
