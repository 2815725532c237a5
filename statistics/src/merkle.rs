//! The Merkle tree of the log (RFC 6962, section 2.1; RFC 9162, section 2.1).
//!
//! A proof reads hashes of perfect subtrees through [`Subtrees`], O(log n) of them; verification needs nothing
//! but the proof and is in [`domain::merkle`]. [`tile`] keeps those hashes in tiles, so that a tree grows by rewriting its right edge only.

pub mod nodes;
pub mod tile;

use domain::Digest;
pub use domain::merkle::{PathFault, empty_root, leaf_hash, node_hash, verify_consistency, verify_inclusion};

use self::tile::TileId;

/// Where the hashes of perfect subtrees come from.
pub trait Subtrees {
    /// The hash over the `2^level` leaves from leaf `index · 2^level` on.
    fn subtree(&mut self, level: u8, index: u64) -> Result<Digest, TreeFault>;
}

/// Why a tree cannot answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TreeFault {
    /// Asked for a leaf or a size that the tree does not have.
    #[error("the tree of {size} leaves does not reach {asked}")]
    OutOfRange {
        /// The leaf or the size that was asked for.
        asked: u64,
        /// Leaves in the tree.
        size: u64,
    },
    /// A hash that the tree must have is not there.
    #[error("tile {0} is missing or too short")]
    Missing(TileId),
}

/// The root over the first `size` leaves.
pub fn root(tree: &mut impl Subtrees, size: u64) -> Result<Digest, TreeFault> {
    if size == 0 { Ok(empty_root()) } else { range(tree, 0, size) }
}

/// The path from leaf `index` to the root over the first `size` leaves, nearest sibling first (RFC 6962, 2.1.1).
pub fn inclusion(tree: &mut impl Subtrees, index: u64, size: u64) -> Result<Vec<Digest>, TreeFault> {
    if index >= size {
        return Err(TreeFault::OutOfRange { asked: index, size });
    }
    let mut path = Vec::new();
    let (mut start, mut end) = (0, size);
    while end - start > 1 {
        let middle = start + split(end - start);
        if index < middle {
            path.push(range(tree, middle, end)?);
            end = middle;
        } else {
            path.push(range(tree, start, middle)?);
            start = middle;
        }
    }
    path.reverse();
    Ok(path)
}

/// The proof that the tree over `first` leaves is the beginning of the tree over `size` leaves (RFC 6962, 2.1.2). Empty
/// when the sizes are equal, and when the first tree is empty and so proves nothing.
pub fn consistency(tree: &mut impl Subtrees, first: u64, size: u64) -> Result<Vec<Digest>, TreeFault> {
    if first > size {
        return Err(TreeFault::OutOfRange { asked: first, size });
    }
    let mut path = Vec::new();
    if first == 0 || first == size {
        return Ok(path);
    }
    let (mut start, mut end) = (0, size);
    while end != first {
        let middle = start + split(end - start);
        if first <= middle {
            path.push(range(tree, middle, end)?);
            end = middle;
        } else {
            path.push(range(tree, start, middle)?);
            start = middle;
        }
    }
    // The verifier knows the root of the first tree, but no other subtree at its end.
    if start > 0 {
        path.push(range(tree, start, end)?);
    }
    path.reverse();
    Ok(path)
}

/// The root over the leaves `start..end`, where `start` is such as the splits of a tree give.
fn range(tree: &mut impl Subtrees, start: u64, end: u64) -> Result<Digest, TreeFault> {
    let count = end - start;
    if count.is_power_of_two() {
        let level = count.trailing_zeros();
        // A level of a tree of u64 leaves is below 64.
        return tree.subtree(u8::try_from(level).unwrap_or(u8::MAX), start >> level);
    }
    let middle = start + split(count);
    let left = range(tree, start, middle)?;
    let right = range(tree, middle, end)?;
    Ok(node_hash(&left, &right))
}

/// The largest power of two below `count`, which is at least 2.
fn split(count: u64) -> u64 {
    1 << (count - 1).ilog2()
}

#[cfg(test)]
mod tests;
