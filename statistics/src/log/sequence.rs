//! Giving events their place in the tree, and signing it.

use domain::Digest;
use store::{in_transaction, on_reader, on_writer};

use super::sql::{self, Dialect, Rows};
use super::{During, Log, LogError};
use crate::checkpoint::SignerKey;
use crate::merkle;
use crate::merkle::tile::{TileId, Tiles};

/// How long the lease of a sequencer that has gone silent keeps others out. It only keeps processes from doing the same work at once;
/// that a tree is grown once is guarded by its size and the fence.
const LEASE_MS: i64 = 2_000;

/// What one pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequenced {
    /// Events that have their place now.
    pub added: u32,
    /// Leaves in the signed tree.
    pub tree_size: u64,
}

impl Log {
    /// Gives at most `events_max` events their place and signs the grown tree. Does nothing while none wait, or while another process
    /// holds the lease. What a crash leaves behind is either the old tree or the new one, whole.
    pub async fn sequence(&self, events_max: u32) -> Result<Sequenced, LogError> {
        let state: sql::State = on_reader!(&self.pool, |db: Db| sqlx::query_as(<Db as Dialect>::STATE).fetch_one(db))
            .during("read the state of the tree")?;
        let size = u64::try_from(state.size).map_err(|_| LogError::Corrupt("tree.size"))?;
        let idle = Sequenced { added: 0, tree_size: size };
        let theirs = state.holder.is_some_and(|holder| holder != self.holder) && state.lease_ms > 0;
        if !state.waiting || theirs {
            return Ok(idle);
        }
        let Some(fence) = self.lease().await? else { return Ok(idle) };
        let waiting: Vec<(i64, Vec<u8>)> = on_reader!(&self.pool, |db: Db| {
            sqlx::query_as(<Db as Dialect>::WAITING).bind(i64::from(events_max)).fetch_all(db)
        })
        .during("read events without a place")?;
        if waiting.is_empty() {
            return Ok(idle);
        }
        let leaves = waiting.iter().map(|(_, hash)| Digest::try_from(&hash[..]));
        let leaves: Vec<Digest> =
            leaves.collect::<Result<_, _>>().map_err(|_| LogError::Corrupt("events.leaf_hash"))?;
        let (tiles, touched, root) = self.grow(size, &state.root, &leaves).await?;
        let added = leaves.len() as u64;

        let seed: [u8; 32] = state.seed.try_into().map_err(|_| LogError::Corrupt("log_keys.seed"))?;
        let signer = SignerKey::from_seed(&state.name, &seed)?;
        let checkpoint = signer.sign(size + added, root);
        let tree = Grown { size, added, root, checkpoint, vkey: signer.verifier().to_string(), fence };
        let events: Vec<i64> = waiting.iter().map(|(event, _)| *event).collect();
        let won = self.store_tree(&tree, &events, &tiles, touched).await?;
        Ok(if won {
            Sequenced { added: u32::try_from(added).unwrap_or(u32::MAX), tree_size: size + added }
        } else {
            idle
        })
    }

    /// Takes or renews the lease; `None` while another holds it.
    async fn lease(&self) -> Result<Option<i64>, LogError> {
        on_writer!(&self.pool, |db: Db| {
            sqlx::query_scalar(<Db as Dialect>::LEASE).bind(self.holder).bind(LEASE_MS).fetch_optional(db)
        })
        .during("take the lease of the sequencer")
    }

    /// Appends leaves to the stored tree, after a look whether that is still the tree that was signed.
    async fn grow(
        &self,
        size: u64,
        signed: &[u8],
        leaves: &[Digest],
    ) -> Result<(Tiles, std::collections::BTreeSet<TileId>, Digest), LogError> {
        let mut names = Tiles::needed(|tree| merkle::root(tree, size))?;
        names.extend(Tiles::edge(size));
        let mut tiles = self.tiles(names).await?;
        if merkle::root(&mut tiles, size)?.as_bytes()[..] != *signed {
            return Err(LogError::Inconsistent);
        }
        let touched = tiles.append(size, leaves)?;
        let root = merkle::root(&mut tiles, size + leaves.len() as u64)?;
        Ok((tiles, touched, root))
    }

    /// Stores places, tiles and checkpoint together, if nobody else has grown the tree and the lease is still ours.
    async fn store_tree(
        &self,
        tree: &Grown,
        events: &[i64],
        tiles: &Tiles,
        touched: impl IntoIterator<Item = TileId>,
    ) -> Result<bool, LogError> {
        let mut rows = Rows::default();
        for name in touched {
            let hashes = tiles.bytes(name);
            let row = sql::TileRow { pos: rows.pos(), len: hashes.len(), level: name.level, place: name.index };
            rows.push(&row, &[&hashes]);
        }
        let (tiles_json, tiles_bytes) = rows.parameters();
        let events_json = serde_json::to_string(events).unwrap_or_default();
        let corrupt = |_| LogError::Corrupt("tree.size");
        let size = i64::try_from(tree.size).map_err(corrupt)?;
        let grown = i64::try_from(tree.size + tree.added).map_err(corrupt)?;
        let now = self.clock.now();
        in_transaction!(
            &self.pool,
            |tx: Db| {
                let signed = sqlx::query(sql::TREE_GROW)
                    .bind(grown)
                    .bind(&tree.root.as_bytes()[..])
                    .bind(&tree.checkpoint)
                    .bind(&tree.vkey)
                    .bind(now)
                    .bind(size)
                    .bind(self.holder)
                    .bind(tree.fence)
                    .execute(&mut *tx)
                    .await?;
                if signed.rows_affected() == 0 {
                    return Ok(false);
                }
                sqlx::query(<Db as Dialect>::PLACE).bind(&events_json).bind(size).execute(&mut *tx).await?;
                sqlx::query(<Db as Dialect>::TILES_PUT).bind(&tiles_json).bind(&tiles_bytes).execute(&mut *tx).await?;
                Ok(true)
            },
            commit if |won: &bool| *won
        )
        .during("store the grown tree")
    }
}

/// A tree that is about to be stored.
struct Grown {
    size: u64,
    added: u64,
    root: Digest,
    checkpoint: String,
    vkey: String,
    fence: i64,
}
