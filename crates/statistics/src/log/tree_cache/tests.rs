use domain::{Clock, Rng};
use store::DatabaseSettings;

use super::cache::BYTES_MAX;
use super::*;
use proofs::merkle::{self, leaf_hash};

/// Two levels of tiles with full ones, and the first tile of a third.
const LEAVES: u64 = 66_000;

/// A log with the tiles of a tree of [`LEAVES`] leaves. It has no events, because paths need none.
async fn planted(tree: &mut Tiles) -> (tempfile::TempDir, Log) {
    let folder = tempfile::tempdir().unwrap();
    let pool = Pool::open(&DatabaseSettings::default(), &folder.path().join("statistics.db"), None).await.unwrap();
    let log = Log::open(pool, "attache.test/log", &Clock::system(), &Rng::system()).await.unwrap();
    let leaves: Vec<Digest> = (0..LEAVES).map(|number| leaf_hash(&number.to_be_bytes())).collect();
    let touched = tree.append(0, &leaves).unwrap();
    let Pool::Sqlite { file, .. } = &log.pool else { unreachable!() };
    let mut writer = file.writer().unwrap();
    let transaction = writer.transaction().unwrap();
    for id in touched {
        let (level, place) = (i64::from(id.level), i64::try_from(id.index).unwrap());
        let sql = "INSERT INTO tiles (level, place, hashes) VALUES (?1, ?2, ?3)";
        transaction.execute(sql, (level, place, tree.bytes(id))).unwrap();
    }
    transaction.commit().unwrap();
    (folder, log)
}

fn group(tree: &Tiles, index: u64) -> Group {
    let tile = TileId { level: 0, index: index / 256 };
    let first = usize::try_from(index % 256 / 16 * 16).unwrap();
    let hashes = tree.bytes(tile);
    Group::of(index, &hashes[first * 32..hashes.len().min((first + 16) * 32)])
}

fn signed(size: u64) -> Signed {
    Signed { size, root: Digest::from([0; 32]), checkpoint: String::new(), vkey: String::new() }
}

/// Sizes at which a level of tiles is full, starts, or neither, and some random ones.
fn sizes(rng: &Rng) -> Vec<u64> {
    let mut sizes = vec![1, 2, 15, 16, 17, 255, 256, 257, 511, 512, 513, 65_535, 65_536, 65_537, LEAVES];
    sizes.extend((0..60).map(|_| 1 + rng.below(LEAVES)));
    sizes
}

#[tokio::test]
async fn paths_from_cached_tiles_are_those_of_a_full_fold() {
    let mut tiles = Tiles::default();
    let (_folder, log) = planted(&mut tiles).await;
    let rng = Rng::seeded(5);
    // Space for all tiles, for some, and for none.
    for bytes_max in [BYTES_MAX, 20_000, 0] {
        let log = log.clone().with_tiles_cache(bytes_max);
        for size in sizes(&rng) {
            let tree = log.edged(signed(size)).await.unwrap();
            for index in [0, size - 1, size / 2, rng.below(size), rng.below(size)] {
                let wanted = merkle::inclusion(&mut tiles, index, size).unwrap();
                let (with, own) =
                    (group(&tiles, index), |hands: &mut CachedTiles<'_>| merkle::inclusion(hands, index, size));
                assert_eq!(log.path(&tree, Some(&with), own).await.unwrap(), wanted, "{index} in {size}");
                assert_eq!(log.path(&tree, None, own).await.unwrap(), wanted, "{index} in {size}");
                let wanted = merkle::consistency(&mut tiles, index, size).unwrap();
                let own = |hands: &mut CachedTiles<'_>| merkle::consistency(hands, index, size);
                assert_eq!(log.path(&tree, None, own).await.unwrap(), wanted, "{index} before {size}");
            }
        }
        assert!(log.tree_cache.tiles.weight() <= bytes_max, "{} of {bytes_max}", log.tree_cache.tiles.weight());
    }
}

#[tokio::test]
async fn a_cached_tile_is_not_read_again() {
    let mut tiles = Tiles::default();
    let (_folder, log) = planted(&mut tiles).await;
    let tree = log.edged(signed(LEAVES)).await.unwrap();
    let own = |hands: &mut CachedTiles<'_>| merkle::inclusion(hands, 4711, LEAVES);
    let with = group(&tiles, 4711);
    let wanted = log.path(&tree, Some(&with), own).await.unwrap();
    assert_eq!(wanted, merkle::inclusion(&mut tiles, 4711, LEAVES).unwrap());
    log.pool.close().await;
    assert_eq!(log.path(&tree, Some(&with), own).await.unwrap(), wanted);
    assert!(log.path(&tree, None, own).await.is_err(), "the leaves of the group are not kept");
}

#[tokio::test]
async fn a_tile_that_is_missing_or_short_is_named_and_not_kept() {
    let mut tiles = Tiles::default();
    let (_folder, log) = planted(&mut tiles).await;
    let Pool::Sqlite { file, .. } = &log.pool else { unreachable!() };
    let writer = file.writer().unwrap();
    let own = |hands: &mut CachedTiles<'_>| merkle::inclusion(hands, 300, LEAVES);
    let tree = log.edged(signed(LEAVES)).await.unwrap();
    let whole = tiles.bytes(TileId { level: 0, index: 1 });
    for change in ["UPDATE tiles SET hashes = substr(hashes, 1, 8160)", "DELETE FROM tiles"] {
        writer.execute(&format!("{change} WHERE level = 0 AND place = 1"), ()).unwrap();
        let error = log.path(&tree, None, own).await.unwrap_err();
        assert_eq!(domain::reasons(&error), "the tree cannot be read: tile 0/1 is missing or too short");
    }
    writer.execute("INSERT INTO tiles (level, place, hashes) VALUES (0, 1, ?1)", (whole,)).unwrap();
    assert_eq!(log.path(&tree, None, own).await.unwrap(), merkle::inclusion(&mut tiles, 300, LEAVES).unwrap());
}
