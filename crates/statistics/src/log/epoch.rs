//! The installation of the log, its newest checkpoint, and its epochs.

use domain::checkpoint::{Checkpoint, SignerKey};
use domain::ids::InstallationId;
use domain::{Digest, merkle as hashes};
use store::in_transaction;
use store::pool::{query, scalar};
use uuid::Uuid;

use super::error::{During, LogError};
use super::handle::Log;
use super::sql::Dialect;
use proofs::merkle;

/// The newest checkpoint that the log signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogHead {
    /// Verifier key that signed the checkpoint.
    pub vkey: String,
    /// Text of the signed note.
    pub checkpoint: String,
    /// Number of leaves of the tree.
    pub size: u64,
}

/// The relation of the log to an earlier checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continuity {
    /// The tree of the checkpoint is a prefix of the log.
    Continues,
    /// The log is signed with another key.
    OtherKey,
    /// The log has a smaller tree.
    Smaller,
    /// The log has other leaves than the checkpoint.
    Differs,
}

impl Log {
    /// The installation that the log belongs to; `None` until the first start has assigned it.
    #[boxed]
    pub async fn installation(&self) -> Result<Option<InstallationId>, LogError> {
        let id: Option<Uuid> = scalar(Dialect::of(&self.pool).installation)
            .fetch_optional(&self.pool)
            .await
            .during("read whose log it is")?;
        Ok(id.map(InstallationId::from))
    }

    /// Assigns the log to an installation, unless it belongs to one; returns the installation that it belongs to.
    #[boxed]
    pub async fn installation_begin(&self, id: InstallationId) -> Result<InstallationId, LogError> {
        let Dialect { installation, installation_add, .. } = Dialect::of(&self.pool);
        let id: Uuid = in_transaction!(&self.pool, |tx| {
            query(*installation_add).bind(id.as_uuid()).execute(&mut *tx).await?;
            scalar(*installation).fetch_one(&mut *tx).await
        })
        .await
        .during("give the log to the installation")?;
        Ok(id.into())
    }

    /// The newest signed checkpoint.
    #[boxed]
    pub async fn head(&self) -> Result<LogHead, LogError> {
        let signed = self.signed().await?;
        Ok(LogHead { vkey: signed.vkey, checkpoint: signed.checkpoint, size: signed.size })
    }

    /// Compares the log with a checkpoint that `vkey` signed. Reads O(log n) hashes.
    #[boxed]
    pub async fn continues(&self, vkey: &str, seen: &Checkpoint) -> Result<Continuity, LogError> {
        let signed = self.signed().await?;
        if signed.vkey != vkey {
            return Ok(Continuity::OtherKey);
        }
        if signed.size < seen.size {
            return Ok(Continuity::Smaller);
        }
        let root = self.root_at(signed.size, seen.size).await?;
        Ok(if root == seen.root { Continuity::Continues } else { Continuity::Differs })
    }

    /// Whether the stored tree has the signed root, so that it can grow.
    #[boxed]
    pub async fn is_intact(&self) -> Result<bool, LogError> {
        let signed = self.signed().await?;
        match self.root_at(signed.size, signed.size).await {
            Ok(root) => Ok(root == signed.root),
            Err(LogError::Tree(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The root over the first `size` leaves of the signed tree.
    async fn root_at(&self, signed: u64, size: u64) -> Result<Digest, LogError> {
        if size == 0 {
            return Ok(hashes::empty_root());
        }
        let tree = self.signed_tree(signed).await?;
        let root = self.path(&tree, None, |tiles| merkle::root(tiles, size).map(|root| vec![root])).await?;
        root.first().copied().ok_or(LogError::Corrupt("tree.root"))
    }

    /// Starts an epoch with a new key and another origin. Events and tree are unchanged; the new key signs the tree in the same
    /// transaction, which also ends a halt. Other processes may use the log at the same time.
    #[boxed]
    pub async fn begin_epoch(&self, origin: &str) -> Result<(), LogError> {
        // The first statement updates the tree, because it locks the row on PostgreSQL.
        const TREE: &str = "UPDATE tree SET vkey = $1 WHERE id = 1 RETURNING size, root";
        const RETIRE: &str = "UPDATE log_keys SET retired_at = $1 WHERE retired_at IS NULL";
        const SIGN: &str = "UPDATE tree SET checkpoint = $1, signed_at = $2 WHERE id = 1";
        // Increments the fence, so that a tree that another process signs with the old key is rejected.
        const FENCE: &str = "UPDATE sequencer SET fence = fence + 1, holder = NULL, halted = NULL WHERE id = 1";
        let signer = SignerKey::draw(origin, &self.rng)?;
        let (now, vkey) = (self.clock.now(), signer.verifier().to_string());
        in_transaction!(&self.pool, |tx| {
            query(FENCE).execute(&mut *tx).await?;
            let (size, root): (i64, Vec<u8>) = query(TREE).bind(&vkey).fetch_one(&mut *tx).await?;
            let corrupt = |column: &str| sqlx::Error::Decode(column.into());
            let size = u64::try_from(size).map_err(|_| corrupt("tree.size"))?;
            let root = Digest::try_from(&root[..]).map_err(|_| corrupt("tree.root"))?;
            query(RETIRE).bind(now).execute(&mut *tx).await?;
            let key = query(super::sql::KEY_ADD).bind(&vkey).bind(origin).bind(&signer.seed()[..]).bind(now);
            key.execute(&mut *tx).await?;
            query(SIGN).bind(signer.sign(size, root)).bind(now).execute(&mut *tx).await.map(drop)
        })
        .await
        .during("begin an epoch of the log")?;
        // The cached tree has the same size but another checkpoint.
        self.drop_caches();
        self.set_halt(None);
        self.memory.learn(self.seen().await?);
        Ok(())
    }
}
