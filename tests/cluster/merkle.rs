//! The tree of RFC 6962 and its proofs (RFC 9162, section 2.1.3 and 2.1.4), independent of the server's.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

pub type Hash = [u8; 32];

pub fn sha256(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

pub fn leaf(bytes: &[u8]) -> Hash {
    Sha256::new_with_prefix([0]).chain_update(bytes).finalize().into()
}

fn node(left: &Hash, right: &Hash) -> Hash {
    Sha256::new_with_prefix([1]).chain_update(left).chain_update(right).finalize().into()
}

/// The roots of the trees of the first `size` leaves, for each of these sizes; none of a size beyond the leaves.
pub fn roots(leaves: &[Hash], sizes: impl IntoIterator<Item = u64>) -> BTreeMap<u64, Hash> {
    let mut sizes: Vec<u64> = sizes.into_iter().collect();
    sizes.sort_unstable();
    let (mut found, mut sizes) = (BTreeMap::new(), sizes.into_iter().peekable());
    // Whole subtrees from left to right, each smaller than the one before: leaves and hash.
    let mut whole: Vec<(u64, Hash)> = Vec::new();
    let mut size = 0;
    loop {
        while sizes.next_if_eq(&size).is_some() {
            let root = whole.iter().rev().map(|(_, hash)| *hash).reduce(|right, left| node(&left, &right));
            found.insert(size, root.unwrap_or_else(|| sha256(b"")));
        }
        let Some(next) = leaves.get(usize::try_from(size).unwrap()) else { return found };
        let mut grown = (1, *next);
        while let Some((_, left)) = whole.pop_if(|(leaves, _)| *leaves == grown.0) {
            grown = (2 * grown.0, node(&left, &grown.1));
        }
        whole.push(grown);
        size += 1;
    }
}

/// The root to which an inclusion path leads; `None` if the path has a wrong length.
pub fn root_of_path(leaf: Hash, index: u64, size: u64, path: &[Hash]) -> Option<Hash> {
    let (mut at, mut last) = (index, size.checked_sub(1)?);
    if at > last {
        return None;
    }
    let mut hash = leaf;
    for sibling in path {
        if last == 0 {
            return None;
        }
        if at % 2 == 1 || at == last {
            hash = node(sibling, &hash);
            while at != 0 && at % 2 == 0 {
                (at, last) = (at >> 1, last >> 1);
            }
        } else {
            hash = node(&hash, sibling);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    (last == 0).then_some(hash)
}

/// Whether a consistency path proves that the tree of `from` leaves is a prefix of the tree of `to` leaves.
pub fn is_consistent(from: (u64, Hash), to: (u64, Hash), path: &[Hash]) -> bool {
    let ((from, old), (to, new)) = (from, to);
    if from == 0 || from >= to {
        return path.is_empty() && (from == 0 || from == to && old == new);
    }
    let mut path = path.iter();
    let first = if from.is_power_of_two() { Some(&old) } else { path.next() };
    let Some(first) = first else { return false };
    let (mut at, mut last) = (from - 1, to - 1);
    while at % 2 == 1 {
        (at, last) = (at >> 1, last >> 1);
    }
    let (mut older, mut newer) = (*first, *first);
    for sibling in path {
        if last == 0 {
            return false;
        }
        if at % 2 == 1 || at == last {
            (older, newer) = (node(sibling, &older), node(sibling, &newer));
            while at != 0 && at % 2 == 0 {
                (at, last) = (at >> 1, last >> 1);
            }
        } else {
            newer = node(&newer, sibling);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    last == 0 && older == old && newer == new
}

#[test]
fn roots_and_paths_are_those_of_the_definition() {
    fn defined(leaves: &[Hash]) -> Hash {
        match leaves {
            [] => sha256(b""),
            [only] => *only,
            _ => {
                let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
                node(&defined(left), &defined(right))
            }
        }
    }
    fn path(at: usize, leaves: &[Hash]) -> Vec<Hash> {
        if leaves.len() < 2 {
            return Vec::new();
        }
        let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
        let inner = if at < left.len() { path(at, left) } else { path(at - left.len(), right) };
        let sibling = if at < left.len() { defined(right) } else { defined(left) };
        inner.into_iter().chain([sibling]).collect()
    }
    let leaves: Vec<Hash> = (0..20_u8).map(|number| leaf(&[number])).collect();
    let roots = roots(&leaves, 0..=20);
    for size in 0..=20 {
        let root = roots[&(size as u64)];
        assert_eq!(root, defined(&leaves[..size]), "{size}");
        for at in 0..size {
            let path = path(at, &leaves[..size]);
            assert_eq!(root_of_path(leaves[at], at as u64, size as u64, &path), Some(root), "{at} of {size}");
            assert_ne!(root_of_path(leaves[at], at as u64 + 1, size as u64, &path), Some(root), "{at} of {size}");
        }
    }
}
