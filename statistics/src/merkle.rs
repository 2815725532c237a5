//! The Merkle tree of the log (RFC 6962, section 2.1; RFC 9162, section 2.1).
//!
//! Whoever proves reads hashes of perfect subtrees through [`Subtrees`], O(log n) of them; whoever verifies needs nothing
//! but the proof. [`tile`] keeps those hashes in tiles, so that a tree grows by rewriting its right edge only.

pub mod nodes;
pub mod tile;

use domain::Digest;

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

/// The hash of a leaf: SHA-256 of `0x00 ‖ data`.
pub fn leaf_hash(data: &[u8]) -> Digest {
    Digest::of_parts(&[&[0], data])
}

/// The hash of an inner node: SHA-256 of `0x01 ‖ left ‖ right`.
pub fn node_hash(left: &Digest, right: &Digest) -> Digest {
    let mut bytes = [1; 65];
    bytes[1..33].copy_from_slice(left.as_bytes());
    bytes[33..].copy_from_slice(right.as_bytes());
    Digest::of(&bytes)
}

/// The root of the tree without leaves: SHA-256 of nothing.
pub fn empty_root() -> Digest {
    Digest::of(&[])
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
    // The first tree's own root is known to whoever verifies; any other subtree at its end is not.
    if start > 0 {
        path.push(range(tree, start, end)?);
    }
    path.reverse();
    Ok(path)
}

/// A path that does not lead where it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    /// A leaf beyond the tree, or a first tree larger than the second.
    #[error("{asked} lies outside the tree of {size} leaves")]
    OutOfRange {
        /// The leaf or the size that was asked for.
        asked: u64,
        /// Leaves in the tree.
        size: u64,
    },
    /// The sizes fix how long a path is.
    #[error("a path of another length than the {found} hashes given was expected")]
    Length {
        /// How long it is.
        found: usize,
    },
    /// The path leads to another root.
    #[error("the path leads to {found} instead of {expected}")]
    Root {
        /// The root that it should lead to.
        expected: Digest,
        /// The root that it leads to.
        found: Digest,
    },
}

/// Whether `path` leads from `leaf` at `index` to `root` of `size` leaves (RFC 9162, 2.1.3.2).
pub fn verify_inclusion(leaf: &Digest, index: u64, size: u64, path: &[Digest], root: &Digest) -> Result<(), PathFault> {
    if index >= size {
        return Err(PathFault::OutOfRange { asked: index, size });
    }
    let wrong_length = PathFault::Length { found: path.len() };
    let (mut node, mut last, mut hash) = (index, size - 1, *leaf);
    for sibling in path {
        if last == 0 {
            return Err(wrong_length);
        }
        if node & 1 == 1 || node == last {
            hash = node_hash(sibling, &hash);
            // A node without a right sibling stands for itself on the levels above.
            while node & 1 == 0 && node != 0 {
                node >>= 1;
                last >>= 1;
            }
        } else {
            hash = node_hash(&hash, sibling);
        }
        node >>= 1;
        last >>= 1;
    }
    if last == 0 { same_root(*root, hash) } else { Err(wrong_length) }
}

/// Whether `path` shows that the tree of `first` leaves is the beginning of the tree of `size` leaves (RFC 9162, 2.1.4.2).
pub fn verify_consistency(
    first: u64,
    size: u64,
    first_root: &Digest,
    root: &Digest,
    path: &[Digest],
) -> Result<(), PathFault> {
    let wrong_length = PathFault::Length { found: path.len() };
    if first > size {
        return Err(PathFault::OutOfRange { asked: first, size });
    }
    if first == 0 || first == size {
        let known = if first == 0 { empty_root() } else { *root };
        return if path.is_empty() { same_root(*first_root, known) } else { Err(wrong_length) };
    }
    // A first tree that is a perfect subtree of the second begins the path itself.
    let own = first.is_power_of_two().then_some(first_root);
    let mut steps = own.into_iter().chain(path);
    let Some(start) = steps.next() else { return Err(wrong_length) };
    let skip = (first - 1).trailing_ones();
    let (mut node, mut last) = ((first - 1) >> skip, (size - 1) >> skip);
    let (mut old, mut new) = (*start, *start);
    for step in steps {
        if last == 0 {
            return Err(wrong_length);
        }
        if node & 1 == 1 || node == last {
            old = node_hash(step, &old);
            new = node_hash(step, &new);
            while node & 1 == 0 && node != 0 {
                node >>= 1;
                last >>= 1;
            }
        } else {
            new = node_hash(&new, step);
        }
        node >>= 1;
        last >>= 1;
    }
    if last != 0 {
        return Err(wrong_length);
    }
    same_root(*first_root, old)?;
    same_root(*root, new)
}

fn same_root(expected: Digest, found: Digest) -> Result<(), PathFault> {
    if expected == found { Ok(()) } else { Err(PathFault::Root { expected, found }) }
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
