//! Full tiles and the signed tree in memory.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use domain::Digest;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::log::read::statements;
use proofs::merkle::nodes::Nodes;
use proofs::merkle::tile::{TileId, WIDTH, fold, locate};
use proofs::merkle::{Subtrees, TreeFault};

/// Default size of the cache of full tiles, in bytes.
pub const BYTES_MAX: u64 = 64 << 20;
/// Overhead of a cache entry in bytes: key, pointers, hash table.
const ENTRY_BYTES: usize = 128;

/// The last signed tree.
#[derive(Debug)]
pub struct Signed {
    pub size: u64,
    pub root: Digest,
    pub checkpoint: String,
    pub vkey: String,
}

/// A signed tree, with the partial last tile of each level.
pub struct SignedTree {
    pub signed: Signed,
    pub edge: Vec<(TileId, Nodes)>,
}

/// Cache of the signed tree, and of its tiles by id.
pub struct TreeCache {
    pub tiles: Cache<TileId, Arc<Nodes>, ByBytes>,
    pub signed: RwLock<Option<Arc<SignedTree>>>,
}

impl Default for TreeCache {
    fn default() -> Self {
        Self::new(BYTES_MAX)
    }
}

impl fmt::Debug for TreeCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeCache").field("tiles", &self.tiles.len()).finish_non_exhaustive()
    }
}

/// Weighs a tile by its size in memory.
#[derive(Debug, Clone)]
pub struct ByBytes;

impl Weighter<TileId, Arc<Nodes>> for ByBytes {
    fn weight(&self, _: &TileId, nodes: &Arc<Nodes>) -> u64 {
        (nodes.bytes() + ENTRY_BYTES) as u64
    }
}

impl TreeCache {
    pub fn new(bytes_max: u64) -> Self {
        // Nearly all tiles are on the lowest level, so their size is used as the estimate.
        let usual =
            Nodes::of(&[Digest::from([0; 32]); WIDTH]).from_level(statements::GROUP_LEVELS).bytes() + ENTRY_BYTES;
        let items = usize::try_from(bytes_max).unwrap_or(usize::MAX) / usual;
        Self { tiles: Cache::with_weighter(items, bytes_max, ByBytes), signed: RwLock::new(None) }
    }

    /// Drops all entries: the database may be another one.
    pub fn clear(&self) {
        self.tiles.clear();
        *self.signed.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Caches a full tile. On the lowest level, only the nodes above groups of leaves are cached, so that sixteen times as many
    /// tiles fit; the group is read with the event.
    pub fn keep(&self, id: TileId, nodes: &Nodes) {
        let entry = if id.level == 0 { nodes.from_level(statements::GROUP_LEVELS) } else { nodes.clone() };
        self.tiles.insert(id, Arc::new(entry));
    }
}

/// The leaf hashes of a group.
pub struct Group {
    tile: TileId,
    /// Place of the first leaf in the tile.
    first: usize,
    leaves: Vec<Digest>,
}

impl Group {
    /// The group of the leaf at `index`.
    pub fn of(index: u64, hashes: &[u8]) -> Self {
        let tile = TileId { level: 0, index: index / WIDTH as u64 };
        // The remainder is below 256.
        let first = usize::try_from(index % WIDTH as u64 / statements::GROUP * statements::GROUP).unwrap_or(0);
        Self { tile, first, leaves: digests(hashes) }
    }

    fn get(&self, tile: TileId, level: u8, place: usize) -> Option<Digest> {
        let is_within = self.tile == tile && level < statements::GROUP_LEVELS;
        let from = (place << level).checked_sub(self.first).filter(|_| is_within)?;
        let leaves = self.leaves.get(from..from + (1 << level))?;
        Some(fold(leaves.to_vec()))
    }
}

/// The cached part of a tree. For a missing tile it records the id and returns a placeholder.
pub struct CachedTiles<'a> {
    pub tree_cache: &'a TreeCache,
    pub tree: &'a SignedTree,
    pub group: Option<&'a Group>,
    /// Full tiles from the cache or the database. Kept here because other requests may evict them from the cache.
    pub held: Vec<(TileId, Arc<Nodes>)>,
    pub missing: Vec<TileId>,
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
            self.held.extend(self.tree_cache.tiles.get(&id).map(|nodes| (id, nodes)));
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

/// The hashes in the bytes of a stored tile.
pub fn digests(bytes: &[u8]) -> Vec<Digest> {
    bytes.as_chunks().0.iter().map(|hash| Digest::from(*hash)).collect()
}
