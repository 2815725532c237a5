//! Tiles: the hashes of a tree in blocks of 256, in the layout of C2SP `tlog-tiles`.
//!
//! A tile of level `L` contains up to 256 hashes of perfect subtrees of `256^L` leaves, in order. A full tile never
//! changes; appending rewrites only the last tile of each level, and a proof reads a few tiles per level.

mod id;
mod path;

use std::collections::{BTreeMap, BTreeSet};

use domain::Digest;
use domain::merkle::node_hash;

pub use self::id::{HEIGHT, LEVELS_MAX, TileId, WIDTH};
pub use self::path::{NotATile, TilePath};
use super::subtrees::{Subtrees, TreeFault};

/// Some tiles of a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tiles(BTreeMap<TileId, Vec<Digest>>);

impl Tiles {
    /// The tiles that are rewritten when a tree of `size` leaves grows: the unfilled last one of each level.
    pub fn edge(size: u64) -> Vec<TileId> {
        let unfilled = |level| {
            let count = size >> (u32::from(HEIGHT) * u32::from(level));
            let partial = !count.is_multiple_of(WIDTH as u64);
            partial.then_some(TileId { level, index: count / WIDTH as u64 })
        };
        (0..LEVELS_MAX).filter_map(unfilled).collect()
    }

    /// The tiles that `read` requests. The path of a proof does not depend on the values of the hashes.
    pub fn needed<T>(
        read: impl FnOnce(&mut TileCollector) -> Result<T, TreeFault>,
    ) -> Result<BTreeSet<TileId>, TreeFault> {
        let mut needed = TileCollector(BTreeSet::new());
        read(&mut needed)?;
        Ok(needed.0)
    }

    /// Adds a stored tile: its hashes, concatenated. It may be longer than in the tree that is read, because tiles only
    /// grow.
    pub fn insert(&mut self, id: TileId, stored: &[u8]) {
        let (hashes, _) = stored.as_chunks();
        self.0.insert(id, hashes.iter().map(|hash| Digest::from(*hash)).collect());
    }

    /// The stored form of a tile: its hashes, concatenated.
    pub fn bytes(&self, id: TileId) -> Vec<u8> {
        self.0.get(&id).into_iter().flatten().flat_map(|hash| *hash.as_bytes()).collect()
    }

    /// Drops all tiles except the [`edge`](Self::edge) of a tree of `size` leaves.
    pub fn keep_edge(&mut self, size: u64) {
        let edge = Self::edge(size);
        self.0.retain(|id, _| edge.contains(id));
    }

    /// Appends leaf hashes to a tree of `size` leaves with its [`edge`](Self::edge) present. Returns the tiles to store.
    pub fn append(&mut self, size: u64, leaves: &[Digest]) -> Result<BTreeSet<TileId>, TreeFault> {
        let mut touched = BTreeSet::new();
        for (position, leaf) in (size..).zip(leaves) {
            self.push(0, position, *leaf, &mut touched)?;
        }
        Ok(touched)
    }

    /// Appends a hash to its tile in a level, and the tile's own hash to the level above once the tile is full.
    fn push(&mut self, level: u8, place: u64, hash: Digest, touched: &mut BTreeSet<TileId>) -> Result<(), TreeFault> {
        let id = TileId { level, index: place / WIDTH as u64 };
        let tile = self.0.entry(id).or_default();
        if tile.len() as u64 != place % WIDTH as u64 {
            return Err(TreeFault::Missing(id));
        }
        tile.push(hash);
        touched.insert(id);
        if tile.len() == WIDTH {
            let whole = fold(tile.clone());
            self.push(level + 1, id.index, whole, touched)?;
        }
        Ok(())
    }
}

impl Subtrees for Tiles {
    fn subtree(&mut self, level: u8, index: u64) -> Result<Digest, TreeFault> {
        let (id, within, place) = locate(level, index);
        let hashes = self.0.get(&id).and_then(|tile| tile.get(place << within..(place + 1) << within));
        hashes.map(|hashes| fold(hashes.to_vec())).ok_or(TreeFault::Missing(id))
    }
}

/// Records the tiles that are requested, and answers with placeholders.
#[derive(Debug)]
pub struct TileCollector(BTreeSet<TileId>);

impl Subtrees for TileCollector {
    fn subtree(&mut self, level: u8, index: u64) -> Result<Digest, TreeFault> {
        self.0.insert(locate(level, index).0);
        Ok(Digest::from([0; 32]))
    }
}

/// The tile that contains a perfect subtree, the level within the tile, and the place on that level.
pub fn locate(level: u8, index: u64) -> (TileId, u8, usize) {
    let within = level % HEIGHT;
    let id = TileId { level: level / HEIGHT, index: index >> (HEIGHT - within) };
    // The remainder is below 256.
    let place = usize::try_from(index % (WIDTH as u64 >> within)).unwrap_or(0);
    (id, within, place)
}

/// The root over a power of two of hashes.
pub fn fold(mut hashes: Vec<Digest>) -> Digest {
    let mut count = hashes.len();
    while count > 1 {
        count /= 2;
        for place in 0..count {
            hashes[place] = node_hash(&hashes[2 * place], &hashes[2 * place + 1]);
        }
    }
    hashes[0]
}
