//! The tree as C2SP `tlog-tiles`, verified by a client that has only the tiles and the checkpoint.

use domain::Digest;
use domain::checkpoint::{Checkpoint, SignerKey, VerifierKey};
use proofs::merkle;
use proofs::merkle::tile::{TilePath, Tiles};
use statistics::log::Log;
use store::in_transaction;
use store::pool::query;

use crate::world::{Chain, World};
use harness::on_each_database;

/// Hashes of a full tile.
const FULL: u64 = 256;

/// The tile at a path of the format, and its bytes cut into hashes.
async fn tile(log: &Log, path: &str) -> Option<Vec<[u8; 32]>> {
    let answer = log.tile(path.parse::<TilePath>().unwrap()).await.unwrap();
    if answer.status == 404 {
        return None;
    }
    assert_eq!(
        (answer.status.as_u16(), answer.content_type.unwrap().to_str().unwrap()),
        (200, "application/octet-stream")
    );
    let (hashes, rest) = answer.body.as_chunks::<32>();
    assert!(rest.is_empty());
    Some(hashes.to_vec())
}

/// The path of a tile, computed without the product's code.
fn path(level: u32, index: u64, width: u64) -> String {
    let index = match (index / 1_000_000, index / 1000 % 1000, index % 1000) {
        (0, 0, units) => format!("{units:03}"),
        (0, thousands, units) => format!("x{thousands:03}/{units:03}"),
        (millions, thousands, units) => format!("x{millions:03}/x{thousands:03}/{units:03}"),
    };
    let partial = if width == FULL { String::new() } else { format!(".p/{width}") };
    format!("{level}/{index}{partial}")
}

/// MTH of RFC 6962, section 2.1, over leaf hashes.
fn tree_hash(hashes: &[[u8; 32]]) -> [u8; 32] {
    if let [hash] = hashes {
        return *hash;
    }
    let (left, right) = hashes.split_at(hashes.len().next_power_of_two() / 2);
    *Digest::of(&[&[1][..], &tree_hash(left), &tree_hash(right)].concat()).as_bytes()
}

/// Rebuilds the root of a tree of `size` leaves from its tiles; every level must agree with the one below it.
async fn rebuilt(log: &Log, size: u64) -> [u8; 32] {
    let mut leaves = Vec::new();
    let mut below: Vec<[u8; 32]> = Vec::new();
    for level in 0..8 {
        let count = size >> (8 * level);
        let mut hashes = Vec::new();
        for index in 0..count.div_ceil(FULL) {
            let width = (count - index * FULL).min(FULL);
            let tile_hashes = tile(log, &path(level, index, width)).await;
            let tile_hashes = tile_hashes.unwrap_or_else(|| panic!("{} of {size}", path(level, index, width)));
            assert_eq!(tile_hashes.len() as u64, width);
            hashes.extend(tile_hashes);
        }
        let beyond = path(level, count / FULL, count % FULL + 1);
        assert_eq!(tile(log, &beyond).await, None, "{beyond} is not in a tree of {size}");
        if level == 0 {
            leaves.clone_from(&hashes);
        } else {
            let roots: Vec<_> = below.chunks_exact(256).map(tree_hash).collect();
            assert_eq!(hashes, roots, "level {level} of {size}");
        }
        below = hashes;
    }
    tree_hash(&leaves)
}

/// The newest checkpoint under the key of the log.
async fn signed(log: &Log) -> Checkpoint {
    let keys: serde_json::Value = serde_json::from_slice(&log.keys().await.unwrap().body).unwrap();
    let key: VerifierKey = keys["keys"][0]["vkey"].as_str().unwrap().parse().unwrap();
    key.open(std::str::from_utf8(&log.checkpoint().await.unwrap().body).unwrap()).unwrap()
}

on_each_database! {
    async fn the_signed_root_is_rebuilt_from_tiles_alone_while_the_log_grows(world: World) {
        let mut chain = Chain::new(&world);
        let mut size = 0;
        assert_eq!(tile(&world.log, "0/000.p/1").await, None, "an empty tree has no tile");
        for events in [1, 1, 253, 1, 1, 43] {
            let group: Vec<_> = (0..events).map(|_| world.append(&chain.next())).collect();
            world.log.append(&group).await.unwrap();
            // An event without a place is in no tile.
            assert_eq!(tile(&world.log, &path(0, size / FULL, size % FULL + 1)).await, None);
            while world.log.sequence(1000).await.unwrap().added > 0 {}
            size += events;
            let checkpoint = signed(&world.log).await;
            assert_eq!(checkpoint.size, size);
            assert_eq!(rebuilt(&world.log, size).await, *checkpoint.root.as_bytes(), "{size}");
        }
        // A cached partial tile stays available after it has grown, with the same hashes.
        let full = tile(&world.log, "0/000").await.unwrap();
        for width in [1, 2, 255] {
            assert_eq!(tile(&world.log, &path(0, 0, width)).await.unwrap()[..], full[..usize::try_from(width).unwrap()]);
        }
    }

    async fn a_tree_of_three_levels_is_rebuilt_from_tiles_alone(world: World) {
        let pool = world.pool().await;
        let key: Vec<(String, Vec<u8>)> = query("SELECT name, seed FROM log_keys").fetch_all(&pool).await.unwrap();
        let key = SignerKey::from_seed(&key[0].0, &key[0].1.clone().try_into().unwrap()).unwrap();
        let leaves: Vec<Digest> = (0..70_000_u64).map(|number| merkle::leaf_hash(&number.to_be_bytes())).collect();
        let (mut tiles, mut size) = (Tiles::default(), 0);
        for grown in [65_535_usize, 65_536, 65_537, 70_000] {
            // Tiles and the signed tree are written directly: the events are not needed for tiles.
            let touched = tiles.append(size as u64, &leaves[size..grown]).unwrap();
            let root = merkle::root(&mut tiles, grown as u64).unwrap();
            let checkpoint = key.sign(grown as u64, root);
            let stored: Result<(), sqlx::Error> = in_transaction!(&pool, |tx| {
                for id in touched {
                    let put = "INSERT INTO tiles (level, place, hashes) VALUES ($1, $2, $3) \
                        ON CONFLICT (level, place) DO UPDATE SET hashes = excluded.hashes";
                    let place = i64::try_from(id.index).unwrap();
                    query(put).bind(i64::from(id.level)).bind(place).bind(tiles.bytes(id)).execute(&mut *tx).await?;
                }
                let sign = query("UPDATE tree SET size = $1, root = $2, checkpoint = $3 WHERE id = 1");
                let sign = sign.bind(i64::try_from(grown).unwrap()).bind(root.as_bytes().to_vec()).bind(&checkpoint);
                sign.execute(&mut *tx).await?;
                Ok(())
            }).await;
            stored.unwrap();
            size = grown;
            let checkpoint = signed(&world.log).await;
            assert_eq!(rebuilt(&world.log, checkpoint.size).await, *checkpoint.root.as_bytes(), "{grown}");
        }
    }
}
