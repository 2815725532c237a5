//! Hashes of a Merkle tree, and verification of its proofs (RFC 6962, section 2.1; RFC 9162, section 2.1). The log
//! creates the proofs; the command line and the typed client verify them.

use crate::Digest;

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

/// The root of an empty tree: SHA-256 of the empty string.
pub fn empty_root() -> Digest {
    Digest::of(&[])
}

/// A proof that does not verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    /// The leaf is beyond the tree, or the first tree is larger than the second.
    #[error("{asked} is beyond the tree of {size} leaves")]
    OutOfRange {
        /// The requested leaf or size.
        asked: u64,
        /// Number of leaves in the tree.
        size: u64,
    },
    /// The path has another length than the sizes require.
    #[error("wrong path length: got {found} hashes")]
    Length {
        /// Number of hashes in the path.
        found: usize,
    },
    /// The path computes another root.
    #[error("the path leads to {found} instead of {expected}")]
    Root {
        /// The root of the tree.
        expected: Digest,
        /// The root that the path computes.
        found: Digest,
    },
}

/// Verifies that `path` leads from `leaf` at `index` to the `root` of a tree of `size` leaves (RFC 9162, 2.1.3.2).
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
            // A node without a right sibling is its own parent on the levels above.
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

/// Verifies that the tree of `first` leaves is a prefix of the tree of `size` leaves (RFC 9162, 2.1.4.2).
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
        let expected = if first == 0 { empty_root() } else { *root };
        return if path.is_empty() { same_root(*first_root, expected) } else { Err(wrong_length) };
    }
    // If the first tree is a perfect subtree of the second, its root is the first hash of the path.
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
