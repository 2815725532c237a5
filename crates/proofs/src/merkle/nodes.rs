//! A tile with the inner nodes above its hashes, so that a proof need not hash them again.

use domain::Digest;

use super::tile::HEIGHT;
use domain::merkle::node_hash;

/// The hashes of all perfect subtrees within a tile, level by level.
///
/// The root of a full tile is not included: it is a hash of the tile above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes {
    /// Number of hashes of the tile.
    count: usize,
    /// The lowest level included; level 0 are the hashes of the tile.
    lowest: u8,
    /// The hashes of all levels, concatenated.
    hashes: Box<[Digest]>,
}

impl Nodes {
    /// Computes all nodes of a full or partial tile.
    pub fn of(hashes: &[Digest]) -> Self {
        let mut nodes = Vec::with_capacity(2 * hashes.len());
        nodes.extend_from_slice(hashes);
        let mut below = 0;
        for level in 1..HEIGHT {
            let above = nodes.len();
            for place in 0..hashes.len() >> level {
                let pair = below + 2 * place;
                nodes.push(node_hash(&nodes[pair], &nodes[pair + 1]));
            }
            below = above;
        }
        Self { count: hashes.len(), lowest: 0, hashes: nodes.into() }
    }

    /// Returns a copy without the levels below `lowest`.
    #[must_use]
    pub fn from_level(&self, lowest: u8) -> Self {
        let lowest = lowest.max(self.lowest);
        Self { count: self.count, lowest, hashes: self.hashes[self.begin(lowest)..].into() }
    }

    /// The hash over the `2^level` hashes from `place · 2^level` on; `None` if the level or the place is not included.
    pub fn get(&self, level: u8, place: usize) -> Option<Digest> {
        let is_here = (self.lowest..HEIGHT).contains(&level) && place < self.count >> level;
        is_here.then(|| self.hashes.get(self.begin(level) + place).copied()).flatten()
    }

    /// Size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.hashes)
    }

    /// Index of the first hash of a level.
    fn begin(&self, level: u8) -> usize {
        (self.lowest..level).map(|level| self.count >> level).sum()
    }
}
