//! A tile together with the nodes above its hashes: what is folded once need not be folded for every proof.

use domain::Digest;

use super::node_hash;
use super::tile::HEIGHT;

/// The perfect subtrees within a tile, level by level: its hashes, and what they make.
///
/// The root of a full tile is not among them: it is a hash of the tile above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes {
    /// Hashes of the tile.
    count: usize,
    /// The lowest level that is here; 0 is that of the tile's own hashes.
    lowest: u8,
    /// Level after level.
    hashes: Box<[Digest]>,
}

impl Nodes {
    /// All nodes of a tile, full or not.
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

    /// The same without the levels below `lowest`.
    #[must_use]
    pub fn from_level(&self, lowest: u8) -> Self {
        let lowest = lowest.max(self.lowest);
        Self { count: self.count, lowest, hashes: self.hashes[self.begin(lowest)..].into() }
    }

    /// The hash over the `2^level` hashes from `place · 2^level` on; `None` when it is not here.
    pub fn get(&self, level: u8, place: usize) -> Option<Digest> {
        let is_here = (self.lowest..HEIGHT).contains(&level) && place < self.count >> level;
        is_here.then(|| self.hashes.get(self.begin(level) + place).copied()).flatten()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.hashes)
    }

    /// Where a level begins.
    fn begin(&self, level: u8) -> usize {
        (self.lowest..level).map(|level| self.count >> level).sum()
    }
}
