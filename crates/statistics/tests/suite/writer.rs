//! The writer of an SQLite file: its memory agrees with the log, also after failures of its connection.

use std::time::Duration;

use domain::{Clock, Rng};
use serde_json::Value;
use statistics::log::{AppendOutcome, Log, WriterSettings};
use store::{DatabaseSettings, Pool};

use crate::world::{Chain, ORIGIN, World, append_of};

async fn open(folder: &tempfile::TempDir, settings: &DatabaseSettings, limits: &WriterSettings) -> Log {
    let pool = Pool::open(settings, &folder.path().join("statistics.db"), Some("statistics")).await.unwrap();
    Log::open_with(pool, ORIGIN, &Clock::system(), &Rng::system(), limits).await.unwrap()
}

/// A log with a writer that hardly waits for a lock.
async fn open_impatient(folder: &tempfile::TempDir) -> Log {
    let settings = DatabaseSettings { busy_timeout: Duration::from_millis(20), ..DatabaseSettings::default() };
    open(folder, &settings, &WriterSettings::default()).await
}

async fn take(log: &Log, event: &Value) -> AppendOutcome {
    log.append(&[append_of(event, &Rng::system())]).await.unwrap().remove(0)
}

async fn settled(log: &Log) -> u64 {
    while log.sequence(10_000).await.unwrap().added > 0 {}
    log.standing().await.unwrap().tree_size
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_that_were_dropped_from_memory_are_read_again() {
    let world = World::on_sqlite().await;
    let folder = tempfile::tempdir().unwrap();
    let limits = WriterSettings { chains_max: 4, group_max: 3, ..WriterSettings::default() };
    let log = open(&folder, &DatabaseSettings::default(), &limits).await;
    let mut chains: Vec<Chain> = (0..20).map(|_| Chain::new(&world)).collect();
    let mut sent = Vec::new();
    for round in 0..6 {
        for chain in &mut chains {
            let event = chain.next();
            assert!(matches!(take(&log, &event).await, AppendOutcome::Receipt(_)), "{round}");
            sent.push(event);
        }
        // Some rounds find the heads in the table, others in memory because the events have no place yet.
        if round % 2 == 0 {
            settled(&log).await;
        }
    }
    assert_eq!(settled(&log).await, 120);
    assert_eq!(log.audit().await.unwrap().chains, 20);
    // A fork of a chain is refused even if the chain's head is not in memory.
    let fork = chains[0].clone().again(0).next();
    assert!(matches!(take(&log, &fork).await, AppendOutcome::Refused { .. }));
    log.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_process_appends_and_places_is_known_in_the_next_group() {
    let world = World::on_sqlite().await;
    let other = world.another(ORIGIN).await.unwrap();
    let mut chain = Chain::new(&world);
    for round in 0..30 {
        let (one, two) = if round % 2 == 0 { (&world.log, &other) } else { (&other, &world.log) };
        let event = chain.next();
        let AppendOutcome::Receipt(receipt) = take(one, &event).await else { panic!("{round}") };
        assert_eq!(take(two, &event).await, AppendOutcome::Receipt(receipt));
        if round % 3 == 0 {
            two.sequence(100).await.unwrap();
        }
    }
    other.close().await;
    assert_eq!(settled(&world.log).await, 30);
    assert_eq!(world.log.audit().await.unwrap().events, 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_locked_is_written_again_once_it_is_free() {
    let world = World::on_sqlite().await;
    let folder = tempfile::tempdir().unwrap();
    let log = open_impatient(&folder).await;
    let mut chain = Chain::new(&world);
    take(&log, &chain.next()).await;
    let event = chain.next();
    let stranger = rusqlite::Connection::open(folder.path().join("statistics.db")).unwrap();
    stranger.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..3 {
        let refused = log.append(&[append_of(&event, &Rng::system())]).await.unwrap_err();
        assert!(refused.is_unavailable(), "{refused}");
        assert!(log.writable().await.is_err());
    }
    stranger.execute_batch("ROLLBACK").unwrap();
    log.writable().await.unwrap();
    assert!(matches!(take(&log, &event).await, AppendOutcome::Receipt(_)));
    assert_eq!(settled(&log).await, 2);
    assert_eq!(log.audit().await.unwrap().events, 2);
    log.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_closed_refuses_what_comes_later() {
    let world = World::on_sqlite().await;
    let event = Chain::new(&world).next();
    world.log.close().await;
    let refused = world.log.append(&[append_of(&event, &Rng::system())]).await.unwrap_err();
    assert_eq!(refused.to_string(), "the log is closed");
}

/// Returns the number in the header of the write-ahead log that SQLite increments at each restart of the log.
fn checkpoint_sequence(folder: &tempfile::TempDir) -> Option<u32> {
    let bytes = std::fs::read(folder.path().join("statistics.db-wal")).unwrap();
    Some(u32::from_be_bytes(bytes.get(12..16)?.try_into().unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_write_ahead_log_is_copied_also_where_hardly_an_event_comes() {
    let folder = tempfile::tempdir().unwrap();
    let limits = WriterSettings { wal_bytes: 256 * 1024, ..WriterSettings::default() };
    let log = open(&folder, &DatabaseSettings::default(), &limits).await;
    // Each probe writes a page of 4 KiB; the log is overwritten from its start once all of it was copied.
    let mut restarts = 0;
    let mut sequence = checkpoint_sequence(&folder);
    tokio::time::timeout(Duration::from_mins(1), async {
        while restarts < 3 {
            log.writable().await.unwrap();
            let now = checkpoint_sequence(&folder);
            restarts += u32::from(now != sequence);
            sequence = now;
        }
    })
    .await
    .expect("the write-ahead log is copied and begins again");
    log.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_that_cannot_be_signed_does_not_stop_the_appends() {
    let world = World::on_sqlite().await;
    let mut chain = Chain::new(&world);
    for _ in 0..3 {
        world.take(&chain.next()).await;
    }
    settled(&world.log).await;
    world.forge_tiles().await;
    for _ in 0..5 {
        assert!(matches!(world.take(&chain.next()).await, AppendOutcome::Receipt(_)));
        assert!(world.log.sequence(100).await.is_err());
    }
    assert_eq!(world.log.standing().await.unwrap().unplaced, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_writes_nothing_does_not_hide_that_the_last_write_failed() {
    let world = World::on_sqlite().await;
    let folder = tempfile::tempdir().unwrap();
    let log = open_impatient(&folder).await;
    let mut chain = Chain::new(&world);
    let first = chain.next();
    take(&log, &first).await;
    let stranger = rusqlite::Connection::open(folder.path().join("statistics.db")).unwrap();
    stranger.execute_batch("BEGIN IMMEDIATE").unwrap();
    log.append(&[append_of(&chain.next(), &Rng::system())]).await.unwrap_err();
    stranger.execute_batch("ROLLBACK").unwrap();
    // A resent event gets its receipt again, which shows nothing about the file.
    take(&log, &first).await;
    assert!(log.append_failure().is_some());
    take(&log, &chain.clone().again(1).next()).await;
    assert_eq!(log.append_failure(), None);
    log.close().await;
}
