use proptest::prelude::*;
use serde_json::Value;

use super::nodes::Nodes;
use super::tile::{TileId, Tiles};
use super::*;

/// A tree that hashes all its leaves again for every request: slow, but a direct translation of the definition.
struct Leaves(Vec<Digest>);

impl Subtrees for Leaves {
    fn subtree(&mut self, level: u8, index: u64) -> Result<Digest, TreeFault> {
        fn mth(leaves: &[Digest]) -> Digest {
            match leaves {
                [] => empty_root(),
                [leaf] => *leaf,
                _ => {
                    let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
                    node_hash(&mth(left), &mth(right))
                }
            }
        }
        let start = usize::try_from(index << level).unwrap();
        let leaves = self.0.get(start..start + (1 << level));
        leaves.map(mth).ok_or(TreeFault::Missing(TileId { level, index }))
    }
}

fn leaves(count: u64) -> Vec<Digest> {
    (0..count).map(|number| leaf_hash(&number.to_be_bytes())).collect()
}

fn hex(value: &Value) -> Digest {
    value.as_str().unwrap().parse().unwrap()
}

fn path(value: &Value) -> Vec<Digest> {
    value["path"].as_array().unwrap().iter().map(hex).collect()
}

#[test]
fn every_vector_has_its_root_and_its_paths() {
    let vectors: Value = serde_json::from_slice(include_bytes!("../../../../tests/vectors/merkle.json")).unwrap();
    assert_eq!(empty_root(), hex(&vectors["empty_root"]));
    let mut hashes = Vec::new();
    for leaf in vectors["leaves"].as_array().unwrap() {
        let text = leaf["data_hex"].as_str().unwrap();
        let data: Vec<u8> =
            (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect();
        hashes.push(leaf_hash(&data));
        assert_eq!(hashes.last(), Some(&hex(&leaf["leaf_hash"])));
    }
    let mut tree = Tiles::default();
    tree.append(0, &hashes).unwrap();
    let (mut included, mut consistent) = (0, 0);
    let mut roots = vec![empty_root()];
    for case in vectors["sizes"].as_array().unwrap() {
        let size = case["size"].as_u64().unwrap();
        let whole = hex(&case["root"]);
        roots.push(whole);
        assert_eq!(root(&mut tree, size), Ok(whole));
        for proof in case["inclusion"].as_array().unwrap() {
            let index = proof["index"].as_u64().unwrap();
            assert_eq!(inclusion(&mut tree, index, size), Ok(path(proof)), "{index} in {size}");
            let leaf = hashes[usize::try_from(index).unwrap()];
            assert_eq!(verify_inclusion(&leaf, index, size, &path(proof), &whole), Ok(()));
            included += 1;
        }
        for proof in case["consistency"].as_array().unwrap() {
            let first = proof["first"].as_u64().unwrap();
            assert_eq!(consistency(&mut tree, first, size), Ok(path(proof)), "{first} in {size}");
            let first_root = roots[usize::try_from(first).unwrap()];
            assert_eq!(verify_consistency(first, size, &first_root, &whole, &path(proof)), Ok(()));
            consistent += 1;
        }
    }
    assert!(roots.len() == 41 && included > 100 && consistent > 100);
}

#[test]
fn all_pairs_of_small_sizes_prove_their_consistency_and_no_other() {
    let hashes = leaves(33);
    let mut tree = Leaves(hashes.clone());
    let roots: Vec<_> = (0..=33).map(|size| root(&mut tree, size).unwrap()).collect();
    let at = |size: u64| roots[usize::try_from(size).unwrap()];
    for size in 0..=33 {
        for first in 0..=size {
            let path = consistency(&mut tree, first, size).unwrap();
            assert_eq!(verify_consistency(first, size, &at(first), &at(size), &path), Ok(()));
            for other in (0..=33).filter(|other| *other != first) {
                assert!(verify_consistency(other, size, &at(first), &at(size), &path).is_err());
                assert!(verify_consistency(first, size, &at(other), &at(size), &path).is_err());
            }
        }
    }
    assert_eq!(consistency(&mut tree, 34, 33), Err(TreeFault::OutOfRange { asked: 34, size: 33 }));
    assert_eq!(inclusion(&mut tree, 33, 33), Err(TreeFault::OutOfRange { asked: 33, size: 33 }));
}

#[test]
fn a_proof_in_a_tree_of_ten_million_leaves_reads_few_tiles() {
    let size = 10_000_000;
    for index in [0, 255, 256, 4_999_999, 9_999_424, 9_999_999] {
        let tiles = Tiles::needed(|tree| inclusion(tree, index, size)).unwrap();
        assert!(tiles.len() <= 8, "{index}: {tiles:?}");
    }
    for first in [1, 65_536, 5_000_000, 9_999_999] {
        let tiles = Tiles::needed(|tree| consistency(tree, first, size)).unwrap();
        assert!(tiles.len() <= 8, "{first}: {tiles:?}");
    }
    assert_eq!(Tiles::edge(size).len(), 3);
}

#[test]
fn a_missing_or_short_tile_is_named() {
    let mut tree = Tiles::default();
    let touched = tree.append(0, &leaves(300)).unwrap();
    assert_eq!(touched.iter().map(ToString::to_string).collect::<Vec<_>>(), ["0/0", "0/1", "1/0"]);
    let short = TileId { level: 0, index: 1 };
    let bytes = tree.bytes(short);
    tree.insert(short, &bytes[..43 * 32]);
    assert_eq!(root(&mut tree, 300), Err(TreeFault::Missing(short)));
    assert_eq!(tree.append(300, &leaves(1)), Err(TreeFault::Missing(short)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn tiles_that_grow_in_any_steps_hold_the_tree_of_all_leaves(
        steps in prop::collection::vec(0..700_u64, 1..6), pick: prop::sample::Index, earlier: prop::sample::Index,
    ) {
        let size: u64 = steps.iter().sum();
        let hashes = leaves(size);
        let mut stored: std::collections::BTreeMap<TileId, Vec<u8>> = std::collections::BTreeMap::new();
        let mut at = 0;
        for step in steps {
            // Each pass has only the tiles that a store would return.
            let mut edge = Tiles::default();
            for id in Tiles::edge(at) {
                edge.insert(id, &stored[&id]);
            }
            let range = usize::try_from(at).unwrap()..usize::try_from(at + step).unwrap();
            for id in edge.append(at, &hashes[range]).unwrap() {
                stored.insert(id, edge.bytes(id));
            }
            let path = consistency(&mut edge, at, at + step).unwrap();
            let (before, after) = (root(&mut Leaves(hashes.clone()), at).unwrap(), root(&mut edge, at + step).unwrap());
            prop_assert_eq!(verify_consistency(at, at + step, &before, &after, &path), Ok(()));
            at += step;
        }
        let naive = &mut Leaves(hashes.clone());
        prop_assume!(size > 0);
        let whole = root(naive, size).unwrap();
        let index = pick.index(hashes.len());
        let needed = Tiles::needed(|tree| inclusion(tree, index as u64, size)).unwrap();
        let mut tiles = Tiles::default();
        for id in needed {
            tiles.insert(id, &stored[&id]);
        }
        let path = inclusion(&mut tiles, index as u64, size).unwrap();
        prop_assert_eq!(&path, &inclusion(naive, index as u64, size).unwrap());
        prop_assert_eq!(verify_inclusion(&hashes[index], index as u64, size, &path, &whole), Ok(()));
        let first = earlier.index(hashes.len()) as u64 + 1;
        let path = consistency(naive, first, size).unwrap();
        let first_root = root(naive, first).unwrap();
        prop_assert_eq!(verify_consistency(first, size, &first_root, &whole, &path), Ok(()));
    }

    #[test]
    fn a_tampered_path_never_holds(
        size in 1..2000_u64, pick: prop::sample::Index, place: prop::sample::Index, bit in 0..256_usize, how in 0..6,
    ) {
        let hashes = leaves(size);
        let tree = &mut Tiles::default();
        tree.append(0, &hashes).unwrap();
        let whole = root(tree, size).unwrap();
        let index = pick.index(hashes.len());
        let mut path = inclusion(tree, index as u64, size).unwrap();
        let (mut leaf, mut at, mut of) = (hashes[index], index as u64, size);
        let flip = |hash: &Digest| {
            let mut bytes = *hash.as_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            Digest::from(bytes)
        };
        match how {
            0 => leaf = flip(&leaf),
            1 if !path.is_empty() => { let place = place.index(path.len()); path[place] = flip(&path[place]) }
            2 if !path.is_empty() => { path.remove(place.index(path.len())); }
            3 => path.push(whole),
            4 if size > 1 => at = (at + 1 + place.index(hashes.len() - 1) as u64) % size,
            _ => of = at,
        }
        prop_assert!(verify_inclusion(&leaf, at, of, &path, &whole).is_err());
    }
}

#[test]
fn nodes_are_the_folds_of_a_tile() {
    for count in (0..=256).step_by(5).chain([1, 2, 3, 16, 127, 128, 255]) {
        let hashes = leaves(count);
        let mut tree = Tiles::default();
        tree.append(0, &hashes).unwrap();
        let all = Nodes::of(&hashes);
        for lowest in 0..8 {
            let nodes = all.from_level(lowest);
            assert!(nodes.bytes() <= all.bytes());
            for level in 0..8 {
                for place in 0..=256_u64 >> level {
                    let is_there = level >= lowest && (place + 1) << level <= count;
                    let wanted = is_there.then(|| tree.subtree(level, place).unwrap());
                    assert_eq!(
                        nodes.get(level, usize::try_from(place).unwrap()),
                        wanted,
                        "{count} {lowest} {level} {place}"
                    );
                }
            }
        }
        assert_eq!(all.get(8, 0), None);
    }
}

#[test]
fn a_tile_has_as_many_hashes_as_the_size_of_the_tree_says() {
    for (size, level, index, count) in [
        (0, 0, 0, 0),
        (1, 0, 0, 1),
        (256, 0, 0, 256),
        (256, 0, 1, 0),
        (300, 0, 1, 44),
        (300, 1, 0, 1),
        (65_535, 1, 0, 255),
        (65_536, 1, 0, 256),
        (65_536, 2, 0, 1),
        (u64::MAX, 0, 0, 256),
        (u64::MAX, 7, 0, 255),
    ] {
        assert_eq!(TileId { level, index }.hashes_in(size), count, "{level}/{index} of {size}");
    }
}
