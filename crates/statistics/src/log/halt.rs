//! The refusal to sign: set by the process that detects a fork, stored in the database for all other processes, ended by a new epoch.
//!
//! While the log is halted, no tree is signed and no event is accepted: the operator may replace the database by a newer one, which does
//! not have the events that this one would accept. Reads continue.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use store::in_transaction;
use store::pool::{query, scalar};

use super::error::{During, LogError};
use super::handle::Log;
use super::memory::SeenCheckpoint;

/// Locks the row of the sequencer and invalidates its lease.
const LOCK: &str = "UPDATE sequencer SET fence = fence + 1, holder = NULL WHERE id = 1 AND halted IS NULL";
/// Stores the refusal if the log is still signed with the same key. A new epoch has another key and ends the reason for the refusal.
const HALT: &str = "UPDATE sequencer SET halted = $1 WHERE id = 1 AND halted IS NULL
    AND EXISTS (SELECT 1 FROM tree WHERE id = 1 AND vkey = $2)";
const HALTED: &str = "SELECT halted FROM sequencer WHERE id = 1";

/// Why the log is neither signed nor extended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Halt {
    /// The reason for an operator: both checkpoints, and the remedies.
    pub reason: String,
    /// The key of the checkpoint that the log does not continue.
    pub vkey: String,
    /// The text of the signed note of that checkpoint, if the process that detected the fork has it.
    pub checkpoint: Option<String>,
}

impl Halt {
    /// The refusal of a tree that does not continue the remembered one.
    pub(super) fn of(remembered: &SeenCheckpoint, found: &SeenCheckpoint, fork: Fork) -> Self {
        let reason = format!(
            "the log does not continue the checkpoint that this node remembers: {fork}. Remembered: {}. Found: {}. {REMEDIES}",
            shown(remembered),
            shown(found)
        );
        Self { reason, vkey: remembered.vkey.clone(), checkpoint: Some(remembered.checkpoint.clone()) }
    }

    /// The refusal of a witness.
    pub(super) fn by_witness(name: &str, found: &SeenCheckpoint, why: &str) -> Self {
        let reason = format!(
            "the log does not continue the checkpoint that the witness {name} remembers: {why}. Found: {}. {REMEDIES}",
            shown(found)
        );
        Self { reason, vkey: found.vkey.clone(), checkpoint: None }
    }
}

/// The remedies, which the documentation describes step by step.
const REMEDIES: &str = "Nothing is signed and no event is accepted. Bring back the database with the newer log, or declare a new epoch: \
    `attache admin log epoch --reason …`, with `--part N` for a further part (docs/operations.md, After a restore or failover)";

fn shown(SeenCheckpoint { size, root, .. }: &SeenCheckpoint) -> String {
    format!("{size} events, root {root}")
}

/// How a log does not continue a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fork {
    /// It has fewer leaves.
    #[error("it is smaller")]
    Smaller,
    /// It has the same number of leaves.
    #[error("it has another root at the same size")]
    OtherRoot,
    /// It has more leaves, but the first ones differ.
    #[error("it is larger, but begins with other events")]
    OtherPrefix,
    /// It is signed in an earlier epoch, or under another name.
    #[error("it is signed with a key that is older than the remembered one, or of another log")]
    OtherKey,
}

/// The refusal that is cached in this process.
#[derive(Debug, Default)]
pub struct HaltFlag(Mutex<Option<Halt>>);

impl HaltFlag {
    fn lock(&self) -> MutexGuard<'_, Option<Halt>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The refusal; `None` while the log is signed.
    pub fn get(&self) -> Option<Halt> {
        self.lock().clone()
    }

    /// Sets or ends the refusal; returns whether the state changed.
    fn set(&self, halt: Option<Halt>) -> bool {
        let mut flag = self.lock();
        let is_change = flag.is_some() != halt.is_some();
        *flag = halt;
        is_change
    }
}

fn read(stored: Option<&str>) -> Result<Option<Halt>, LogError> {
    stored.map(serde_json::from_str).transpose().map_err(|_| LogError::Corrupt("sequencer.halted"))
}

impl Log {
    /// Why the log is neither signed nor extended; `None` in normal operation.
    pub fn halted(&self) -> Option<Halt> {
        self.halt.get()
    }

    /// An error while the log is halted.
    pub(super) fn admits(&self) -> Result<(), LogError> {
        self.halt.get().map_or(Ok(()), |halt| Err(LogError::Halted(halt.reason)))
    }

    /// Halts the log here and, through the database, on every other node, unless it is no longer signed with `vkey`. Returns the error for
    /// the operation that detected the fork.
    pub(super) async fn halt(&self, halt: Halt, vkey: &str) -> LogError {
        let noticed = LogError::Halted(halt.reason.clone());
        let text = serde_json::to_string(&halt).unwrap_or_default();
        let stored: Result<(), sqlx::Error> = in_transaction!(&self.pool, |tx| {
            // A statement after the lock reads the key, so it sees an epoch that was committed before the lock was granted.
            query(LOCK).execute(&mut *tx).await?;
            query(HALT).bind(&text).bind(vkey).execute(&mut *tx).await.map(drop)
        })
        .await;
        let followed = match stored {
            Ok(()) => self.stored_halt().await.map(|stored| self.set_halt(stored)),
            Err(source) => Err(LogError::Sql { operation: "store that the log is halted", source }),
        };
        if let Err(error) = followed {
            tracing::error!(error = domain::reasons(&error), "other nodes do not know that the log is halted");
            self.set_halt(Some(halt));
        }
        noticed
    }

    /// The refusal in the database.
    #[boxed]
    pub async fn stored_halt(&self) -> Result<Option<Halt>, LogError> {
        let stored: Option<String> =
            scalar(HALTED).fetch_one(&self.pool).await.during("read whether the log is halted")?;
        read(stored.as_deref())
    }

    /// Reads the stored refusal and applies it.
    pub(super) async fn follow_stored_halt(&self) -> Result<(), LogError> {
        self.set_halt(self.stored_halt().await?);
        self.admits()
    }

    /// Applies the stored refusal, or its absence.
    pub(super) fn follow(&self, stored: Option<&str>) -> Result<(), LogError> {
        self.set_halt(read(stored)?);
        self.admits()
    }

    /// Sets or ends the refusal in this process. In both cases the database may be another one, so caches of its content are dropped.
    pub(super) fn set_halt(&self, halt: Option<Halt>) {
        let reason = halt.as_ref().map(|halt| halt.reason.clone());
        if !self.halt.set(halt) {
            return;
        }
        self.drop_caches();
        if let Some(reason) = reason {
            tracing::error!(reason, "the log is halted");
        } else {
            tracing::warn!("the log is no longer halted");
        }
    }

    /// Drops the state of an earlier database: numbers of sources, heads of chains, the lease, tiles, the signed tree.
    pub(super) fn drop_caches(&self) {
        self.sources.clear();
        self.heads.clear();
        self.lease.lost();
        self.tree_cache.clear();
        if let Some(replica) = &self.replica {
            replica.tree_cache.clear();
        }
    }
}
