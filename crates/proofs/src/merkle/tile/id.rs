//! The position of a tile.

use std::fmt;

/// Number of hashes in a full tile.
pub const WIDTH: usize = 256;
/// Number of levels of the tree per level of tiles: 2^8 = [`WIDTH`].
pub const HEIGHT: u8 = 8;
/// Number of levels of tiles that a tree of `u64` leaves can have.
pub const LEVELS_MAX: u8 = 8;

/// Level and index of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TileId {
    /// Level of tiles, 0 for the leaves.
    pub level: u8,
    /// Index within the level, from 0.
    pub index: u64,
}

impl TileId {
    /// Number of hashes of this tile in a tree of `size` leaves.
    pub fn hashes_in(self, size: u64) -> usize {
        if self.level >= LEVELS_MAX {
            return 0;
        }
        let count = size >> (u32::from(HEIGHT) * u32::from(self.level));
        let own = count.saturating_sub(self.index.saturating_mul(WIDTH as u64));
        usize::try_from(own).unwrap_or(usize::MAX).min(WIDTH)
    }
}

impl fmt::Display for TileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.level, self.index)
    }
}
