//! Stores the newest checkpoint of the embedded log in the main database, so that a replaced or truncated log is detected.
//!
//! 1. Every few seconds (`log.remember_every`), and when the server stops, the pass compares the log with the stored checkpoint.
//! 2. If the log continues the stored checkpoint, its newest checkpoint replaces it in one small transaction; nothing is written while the
//!    log does not grow.
//! 3. If the log does not continue it, nothing is written, and the passes fail until an operator intervenes.
//! 4. On PostgreSQL the pass also writes the newest checkpoint to the node's file; the passes that sign write that file more often.
//!
//! After a crash the stored checkpoint may be `log.remember_every` old. If the log lost only later checkpoints, the start does not detect
//! it, but clients that stored them do.
//!
//! **If it crashes:** the next pass reads the stored checkpoint from the main database.

use domain::Clock;
use domain::log_part::LogPart;
use statistics::log::{Continuity, Log, LogError, LogHead, MemoryFault};
use statistics::parts::PartSlot;
use store::installation::RememberedLog;
use store::{Store, StoreError};
use supervision::periodic::{Next, Pass, PassError};

/// The pass that copies checkpoints from the log to the main database.
#[derive(Debug, Clone)]
pub struct Anchor {
    /// The main database.
    pub store: Store,
    /// The part of the embedded log that is compared.
    pub part: LogPart,
    /// Its log, once it is open.
    pub log: PartSlot,
    /// The clock of the server.
    pub clock: Clock,
}

/// Why the newest checkpoint was not stored.
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
    /// The log does not continue the stored checkpoint.
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
        // A part that is not open has no new checkpoint.
        let Some(log) = self.log.get() else { return Ok(()) };
        // Either write is attempted even if the other one fails.
        let outside = log.remember(true).await;
        self.settle_facts(log).await?;
        Ok(outside?)
    }

    async fn settle_facts(&self, log: &Log) -> Result<(), NotRemembered> {
        // Read before the log, so that the log head read below is at least as new.
        let known = self.store.log_remembered(self.part).await?;
        let head = remembered(log.head().await?);
        if known.as_ref() == Some(&head) {
            return Ok(());
        }
        // A different key means another epoch; the start with `--new-log` stores that checkpoint in the main database itself.
        if let Some(known) = known.filter(|known| known.vkey == head.vkey) {
            let seen = known.opened().ok_or(NotRemembered::Unreadable)?;
            if log.continues(&known.vkey, &seen).await? != Continuity::Continues {
                return Err(NotRemembered::Replaced { size: known.size });
            }
        }
        self.store.log_remember(self.part, &head, self.clock.now()).await?;
        Ok(())
    }
}

/// Converts a log head to the row of the main database.
pub fn remembered(LogHead { vkey, checkpoint, size }: LogHead) -> RememberedLog {
    RememberedLog { vkey, checkpoint, size }
}

impl Pass for Anchor {
    type Memory = ();

    async fn run(&self, (): &mut ()) -> Result<Next, PassError> {
        domain::failpoint!("anchor.pass");
        self.settle().await?;
        // The pass idles until the local sequencer adds events; other nodes store the checkpoints that they sign.
        Ok(Next::Idle)
    }
}
