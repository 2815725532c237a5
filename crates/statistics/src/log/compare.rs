//! Compares the stored log with the checkpoints that this process remembers, before it signs.
//!
//! The stored hashes are read from the database and not from a cache, because a cache may predate a failover.

use std::path::Path;
use std::time::Duration;

use domain::Digest;
use domain::checkpoint::{VerifierKey, base_of, epoch_of};
use domain::ids::InstallationId;
use store::pool::scalar;

use super::error::{During, LogError};
use super::halt::{Fork, Halt};
use super::handle::Log;
use super::memory::SeenCheckpoint;
use super::memory::file::MemoryFault;
use super::sql;
use proofs::merkle;
use proofs::merkle::tile::Tiles;

/// Time between two comparisons of a tree that another node signs. Before this process signs, it compares in any case.
const COMPARE_EVERY: Duration = Duration::from_secs(1);

impl Log {
    /// Keeps the newest checkpoint in a file from now on, and compares the log with the checkpoint in that file. A log that does not
    /// continue it is halted, not refused, so that it can be read.
    #[boxed]
    pub async fn remember_in(&self, path: &Path, installation: InstallationId) -> Result<(), LogError> {
        self.memory.open(path, installation)?;
        match self.compare().await {
            // A damaged tree is reported by the passes that sign.
            Err(error) if !matches!(error, LogError::Halted(_)) && !error.is_beside_the_log() => Err(error),
            _ => Ok(()),
        }
    }

    /// Writes the newest checkpoint to the node's file: at most once a second, or `now`.
    #[boxed]
    pub async fn remember(&self, now: bool) -> Result<(), MemoryFault> {
        self.memory.write(now).await
    }

    /// Checks the state that is about to grow. Fails if the database is a standby, the log is halted, or the log does not continue a
    /// remembered checkpoint; `false` if the state is not the newest that was compared.
    pub(super) async fn vouches_for(&self, state: &sql::State, is_to_grow: bool) -> Result<bool, LogError> {
        if state.recovering {
            return Err(LogError::Recovering);
        }
        let size = u64::try_from(state.size).map_err(|_| LogError::Corrupt("tree.size"))?;
        let root = Digest::try_from(&state.root[..]).map_err(|_| LogError::Corrupt("tree.root"))?;
        let is_known = || !self.memory.is_open() || self.memory.is_of(&state.vkey, size, &root);
        if !is_known() && (is_to_grow || !self.memory.is_fresh(size, COMPARE_EVERY)) {
            self.compare().await?;
        }
        self.follow(state.halted.as_deref())?;
        Ok(is_known())
    }

    /// Compares the stored log with every remembered checkpoint, and remembers the newest stored one. Halts the log if it does not continue
    /// every remembered checkpoint.
    async fn compare(&self) -> Result<(), LogError> {
        if self.pool.is_postgres() && self.is_recovering().await? {
            return Err(LogError::Recovering);
        }
        // Read before the log: a larger checkpoint that is served to a client during the comparison is not in the row.
        let remembered = self.memory.expected();
        let newest = self.seen().await?;
        if self.stored_root(newest.size).await? != newest.root {
            return Err(LogError::Inconsistent);
        }
        for expected in remembered {
            if let Some(fork) = self.fork(&expected, &newest).await? {
                return Err(self.halt(Halt::of(&expected, &newest, fork), &newest.vkey).await);
            }
        }
        if self.memory.known().is_some_and(|known| known.vkey != newest.vkey) {
            self.drop_caches();
        }
        self.memory.learn(newest);
        Ok(())
    }

    /// Describes how the log at `found` diverges from `expected`; `None` if it continues it.
    async fn fork(&self, expected: &SeenCheckpoint, found: &SeenCheckpoint) -> Result<Option<Fork>, LogError> {
        if expected.vkey != found.vkey {
            let is_continued = self.is_key_known(&expected.vkey).await? || is_later_epoch(found, expected);
            return Ok((!is_continued).then_some(Fork::OtherKey));
        }
        if found.size < expected.size {
            return Ok(Some(Fork::Smaller));
        }
        let is_same = self.stored_root(expected.size).await? == expected.root;
        let fork = if found.size == expected.size { Fork::OtherRoot } else { Fork::OtherPrefix };
        Ok((!is_same).then_some(fork))
    }

    /// The newest checkpoint in the database, verified.
    #[boxed]
    pub async fn seen(&self) -> Result<SeenCheckpoint, LogError> {
        let signed = self.signed_row().await?;
        let corrupt = || LogError::Corrupt("tree.checkpoint");
        let key: VerifierKey = signed.vkey.parse().map_err(|_| LogError::Corrupt("tree.vkey"))?;
        let checkpoint = key.open(&signed.checkpoint).map_err(|_| corrupt())?;
        if (checkpoint.size, checkpoint.root) != (signed.size, signed.root) {
            return Err(corrupt());
        }
        Ok(SeenCheckpoint { vkey: signed.vkey, checkpoint: signed.checkpoint, size: signed.size, root: signed.root })
    }

    /// Describes how the log diverges from a checkpoint that a node remembers; `None` if it continues it. Reads O(log n) hashes.
    #[boxed]
    pub async fn fork_from(&self, remembered: &SeenCheckpoint) -> Result<Option<Halt>, LogError> {
        let newest = self.seen().await?;
        let fork = self.fork(remembered, &newest).await?;
        Ok(fork.map(|fork| Halt::of(remembered, &newest, fork)))
    }

    /// The root of the first `size` stored leaves.
    pub(super) async fn stored_root(&self, size: u64) -> Result<Digest, LogError> {
        let mut names = Tiles::needed(|tree| merkle::root(tree, size))?;
        names.extend(Tiles::edge(size));
        let mut tiles = self.tiles(names).await?;
        Ok(merkle::root(&mut tiles, size)?)
    }

    async fn is_key_known(&self, vkey: &str) -> Result<bool, LogError> {
        const COUNT: &str = "SELECT COUNT(*) FROM log_keys WHERE vkey = $1";
        let count: i64 = scalar(COUNT).bind(vkey).fetch_one(&self.pool).await.during("look for a key of the log")?;
        Ok(count > 0)
    }

    async fn is_recovering(&self) -> Result<bool, LogError> {
        const ASK: &str = "SELECT pg_is_in_recovery()";
        scalar(ASK).fetch_one(&self.pool).await.during("read whether the database is in recovery")
    }
}

/// Whether the log is signed in an epoch that started after the remembered one, which a restored database need not know.
fn is_later_epoch(found: &SeenCheckpoint, remembered: &SeenCheckpoint) -> bool {
    let (found, remembered) = (found.origin(), remembered.origin());
    base_of(found) == base_of(remembered) && epoch_of(found) > epoch_of(remembered)
}
