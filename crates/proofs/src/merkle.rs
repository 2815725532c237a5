//! The Merkle tree of the log (RFC 6962, section 2.1; RFC 9162, section 2.1).
//!
//! A proof reads O(log n) hashes of perfect subtrees through [`Subtrees`]; verification needs only the proof and is in [`domain::merkle`].
//! [`tile`] stores those hashes in tiles, so that growth rewrites only the right edge of the tree.

pub mod nodes;
mod subtrees;
pub mod tile;

use domain::Digest;
pub use domain::merkle::{PathFault, empty_root, leaf_hash, node_hash, verify_consistency, verify_inclusion};

pub use self::subtrees::{Subtrees, TreeFault};

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

/// The proof that the tree over `first` leaves is a prefix of the tree over `size` leaves (RFC 6962, 2.1.2). Empty when the sizes are
/// equal, and when the first tree is empty and so proves nothing.
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

/// The root over the leaves `start..end`, where `start` is a multiple of the largest power of two that is at most `end - start`.
fn range(tree: &mut impl Subtrees, start: u64, end: u64) -> Result<Digest, TreeFault> {
    let count = end - start;
    if count.is_power_of_two() {
        let level = count.trailing_zeros();
        // The level is at most 63.
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
