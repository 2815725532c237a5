//! Caches for proofs: full tiles, and the signed tree with the partial tiles at its edge.
//!
//! A full tile never changes, so its inner nodes are cached, up to a number of bytes. Partial tiles are cached together with the tree
//! that they belong to, until a larger tree is signed. An audit never reads these caches.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use domain::Digest;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use store::Pool;

use super::read::{Signed, statements};
use super::{During, Log, LogError};
use crate::merkle::nodes::Nodes;
use crate::merkle::tile::{TileId, Tiles, WIDTH, locate};
use crate::merkle::{Subtrees, TreeFault};

/// Default size of the cache of full tiles, in bytes.
const BYTES_MAX: u64 = 64 << 20;
/// Overhead of a cache entry in bytes: key, pointers, hash table.
const ENTRY_BYTES: usize = 128;

/// A signed tree, with the partial last tile of each level.
pub(super) struct SignedTree {
    pub(super) signed: Signed,
    edge: Vec<(TileId, Nodes)>,
}

/// Cache of the signed tree, and of its tiles by id.
pub(super) struct TreeCache {
    tiles: Cache<TileId, Arc<Nodes>, ByBytes>,
    pub(super) signed: RwLock<Option<Arc<SignedTree>>>,
}

impl Default for TreeCache {
    fn default() -> Self {
        Self::new(BYTES_MAX)
    }
}

impl fmt::Debug for TreeCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelf").field("tiles", &self.tiles.len()).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<TileId, Arc<Nodes>> for ByBytes {
    fn weight(&self, _: &TileId, nodes: &Arc<Nodes>) -> u64 {
        (nodes.bytes() + ENTRY_BYTES) as u64
    }
}

impl TreeCache {
    pub(super) fn new(bytes_max: u64) -> Self {
        // Nearly all tiles are on the lowest level, so their size is the estimate for all.
        let usual =
            Nodes::of(&[Digest::from([0; 32]); WIDTH]).from_level(statements::GROUP_LEVELS).bytes() + ENTRY_BYTES;
        let items = usize::try_from(bytes_max).unwrap_or(usize::MAX) / usual;
        Self { tiles: Cache::with_weighter(items, bytes_max, ByBytes), signed: RwLock::new(None) }
    }

    /// Caches a full tile. On the lowest level, only the nodes above groups of leaves are cached, so that sixteen times as many
    /// tiles fit; the group is read with the event.
    fn keep(&self, id: TileId, nodes: &Nodes) {
        let kept = if id.level == 0 { nodes.from_level(statements::GROUP_LEVELS) } else { nodes.clone() };
        self.tiles.insert(id, Arc::new(kept));
    }
}

/// The leaf hashes of a group.
pub(super) struct Group {
    tile: TileId,
    /// Place of the first leaf in the tile.
    first: usize,
    leaves: Vec<Digest>,
}

impl Group {
    /// The group of the leaf at `index`.
    pub(super) fn of(index: u64, hashes: &[u8]) -> Self {
        let tile = TileId { level: 0, index: index / WIDTH as u64 };
        // The remainder is below 256.
        let first = usize::try_from(index % WIDTH as u64 / statements::GROUP * statements::GROUP).unwrap_or(0);
        Self { tile, first, leaves: digests(hashes) }
    }

    fn get(&self, tile: TileId, level: u8, place: usize) -> Option<Digest> {
        let is_within = self.tile == tile && level < statements::GROUP_LEVELS;
        let from = (place << level).checked_sub(self.first).filter(|_| is_within)?;
        let leaves = self.leaves.get(from..from + (1 << level))?;
        Some(crate::merkle::tile::fold(leaves.to_vec()))
    }
}

/// The cached part of a tree. A tile that is missing is recorded and answered with a placeholder.
pub(super) struct CachedTiles<'a> {
    shelf: &'a TreeCache,
    tree: &'a SignedTree,
    group: Option<&'a Group>,
    /// Full tiles from the cache or the database. Other requests may evict them from the cache meanwhile.
    held: Vec<(TileId, Arc<Nodes>)>,
    missing: Vec<TileId>,
}

impl Subtrees for CachedTiles<'_> {
    fn subtree(&mut self, level: u8, index: u64) -> Result<Digest, TreeFault> {
        let (id, within, place) = locate(level, index);
        if let Some((_, nodes)) = self.tree.edge.iter().find(|(edge, _)| *edge == id) {
            return nodes.get(within, place).ok_or(TreeFault::Missing(id));
        }
        if let Some(node) = self.group.and_then(|group| group.get(id, within, place)) {
            return Ok(node);
        }
        if !self.held.iter().any(|(held, _)| *held == id) {
            self.held.extend(self.shelf.tiles.get(&id).map(|nodes| (id, nodes)));
        }
        let mut held = self.held.iter().filter(|(held, _)| *held == id);
        let node = held.find_map(|(_, nodes)| nodes.get(within, place));
        Ok(node.unwrap_or_else(|| {
            if !self.missing.contains(&id) {
                self.missing.push(id);
            }
            Digest::from([0; 32])
        }))
    }
}

impl Log {
    /// The signed tree, from the cache if it has `size` leaves.
    pub(super) async fn signed_tree(&self, size: u64) -> Result<Arc<SignedTree>, LogError> {
        let known = self.shelf.signed.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known.filter(|known| known.signed.size == size) {
            return Ok(known);
        }
        let tree = Arc::new(self.edged(self.signed().await?).await?);
        *self.shelf.signed.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&tree));
        Ok(tree)
    }

    /// Reads the edge of a signed tree. The stored tiles may contain more hashes, since hashes are only appended.
    async fn edged(&self, signed: Signed) -> Result<SignedTree, LogError> {
        let mut edge = Vec::new();
        for (id, hashes) in self.stored(&Tiles::edge(signed.size)).await? {
            let count = id.hashes_in(signed.size);
            edge.push((id, Nodes::of(hashes.get(..count).ok_or(TreeFault::Missing(id))?)));
        }
        Ok(SignedTree { signed, edge })
    }

    /// Calls `read` with the cached tiles; if tiles are missing, reads them from the database and calls it again.
    pub(super) async fn path(
        &self,
        tree: &SignedTree,
        group: Option<&Group>,
        read: impl Fn(&mut CachedTiles<'_>) -> Result<Vec<Digest>, TreeFault>,
    ) -> Result<Vec<Digest>, LogError> {
        let mut hands = CachedTiles { shelf: &self.shelf, tree, group, held: Vec::new(), missing: Vec::new() };
        let path = read(&mut hands)?;
        if hands.missing.is_empty() {
            return Ok(path);
        }
        let missing = std::mem::take(&mut hands.missing);
        for (id, hashes) in self.stored(&missing).await? {
            if hashes.len() != WIDTH {
                return Err(TreeFault::Missing(id).into());
            }
            let nodes = Nodes::of(&hashes);
            self.shelf.keep(id, &nodes);
            hands.held.push((id, Arc::new(nodes)));
        }
        let path = read(&mut hands)?;
        hands.missing.first().map_or(Ok(path), |id| Err(TreeFault::Missing(*id).into()))
    }

    /// Reads tiles from the database.
    async fn stored(&self, ids: &[TileId]) -> Result<Vec<(TileId, Vec<Digest>)>, LogError> {
        let mut found = Vec::with_capacity(ids.len());
        if let Pool::Postgres(_) = &self.pool {
            let tiles = self.tiles(ids.iter().copied()).await?;
            for id in ids {
                found.push((*id, digests(&tiles.bytes(*id))));
            }
            return Ok(found);
        }
        for id in ids {
            let place = i64::try_from(id.index).map_err(|_| LogError::Corrupt("tree.size"))?;
            let row = self.pool.probe_one(statements::TILE, &[i64::from(id.level).into(), place.into()]).await;
            let row = row.during("read a tile")?.ok_or(TreeFault::Missing(*id))?;
            found.push((*id, digests(&row.hashes)));
        }
        Ok(found)
    }
}

fn digests(bytes: &[u8]) -> Vec<Digest> {
    bytes.as_chunks().0.iter().map(|hash| Digest::from(*hash)).collect()
}

#[cfg(test)]
mod tests;
