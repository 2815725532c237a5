//! The interface through which a proof reads a tree.

use domain::Digest;

use super::tile::TileId;

/// A source of the hashes of perfect subtrees.
pub trait Subtrees {
    /// The hash over the `2^level` leaves from leaf `index · 2^level` on.
    fn subtree(&mut self, level: u8, index: u64) -> Result<Digest, TreeFault>;
}

/// Why a tree cannot return a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TreeFault {
    /// The leaf or the size exceeds the tree.
    #[error("the tree of {size} leaves does not reach {asked}")]
    OutOfRange {
        /// The requested leaf or size.
        asked: u64,
        /// Number of leaves in the tree.
        size: u64,
    },
    /// A hash that the tree must contain is missing.
    #[error("tile {0} is missing or too short")]
    Missing(TileId),
}
