//! Indexes behind the log: an event is found by its id and in pages of activity, before, while and after it is indexed.

use std::collections::BTreeMap;

use domain::ids::ReceiptId;
use domain::{Clock, Rng};
use serde_json::Value;
use statistics::contract::{ActivityQuery, RecordScope};
use statistics::log::{AppendOutcome, Log, WriterSettings};
use store::{DatabaseSettings, Pool};

use crate::world::{Chain, ORIGIN, World, append_of, scope_of};

/// Settings with frequent passes, after nearly every group.
fn eager() -> WriterSettings {
    WriterSettings { index_every: 7, ..WriterSettings::default() }
}

/// Settings without a pass, unless the log is idle.
fn lazy() -> WriterSettings {
    WriterSettings { index_every: usize::MAX, ..WriterSettings::default() }
}

async fn open(folder: &tempfile::TempDir, limits: &WriterSettings) -> Log {
    let path = folder.path().join("statistics.db");
    let pool = Pool::open(&DatabaseSettings::default(), &path, Some("statistics")).await.unwrap();
    Log::open_with(pool, ORIGIN, &Clock::system(), &Rng::system(), limits).await.unwrap()
}

async fn take(log: &Log, event: &Value) -> AppendOutcome {
    log.append(&[append_of(event, &Rng::system())]).await.unwrap().remove(0)
}

async fn receipt(log: &Log, event: &Value) -> ReceiptId {
    let AppendOutcome::Receipt(receipt) = take(log, event).await else { panic!("refused: {event}") };
    receipt
}

async fn quiet(log: &Log) {
    while log.standing().await.unwrap().unindexed > 0 {
        log.sequence(10_000).await.unwrap();
    }
}

fn id_of(event: &Value) -> String {
    event["event_id"].as_str().unwrap().to_owned()
}

/// All pages of a scope, three events at a time.
async fn activity(log: &Log, scope: &RecordScope) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), None);
    loop {
        let query = ActivityQuery { limit: Some(3), cursor, ..ActivityQuery::default() };
        let page: Value = serde_json::from_slice(&log.activity(scope, &query).await.unwrap().body).unwrap();
        ids.extend(page["events"].as_array().unwrap().iter().map(id_of));
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return ids;
        }
    }
}

/// The same event id in another chain.
fn stolen(world: &World, event: &Value) -> Value {
    Chain::new(world).next_with(|other| other["event_id"] = event["event_id"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_taken_once_wherever_it_is_indexed() {
    let world = World::on_sqlite().await;
    let folder = tempfile::tempdir().unwrap();
    let mut sent = BTreeMap::new();
    let mut chains: Vec<Chain> = (0..5).map(|_| Chain::new(&world)).collect();
    for (round, limits) in [lazy(), eager(), lazy(), eager()].iter().enumerate() {
        let log = open(&folder, limits).await;
        for step in 0..40 {
            let event = chains[step % 5].next();
            sent.insert(id_of(&event), (receipt(&log, &event).await, event));
            let (known, before) = sent.values().nth(step * 7 % sent.len()).unwrap();
            assert_eq!(take(&log, before).await, AppendOutcome::Receipt(*known), "round {round}, step {step}");
            assert_eq!(take(&log, &stolen(&world, before)).await, AppendOutcome::EventIdConflict);
            if step % 11 == 0 {
                log.sequence(1_000).await.unwrap();
            }
        }
        if round % 2 == 1 {
            quiet(&log).await;
        }
        for (known, event) in sent.values() {
            assert_eq!(take(&log, event).await, AppendOutcome::Receipt(*known));
            let proof = log.proof(&scope_of(event), id_of(event).parse().unwrap()).await.unwrap();
            assert_eq!(proof.status, 200);
        }
        let (scope, unknown) = (scope_of(&chains[0].clone().next()), world.rng.uuid_v7(Clock::system().now()));
        assert_eq!(log.proof(&scope, unknown.into()).await.unwrap().status, 404);
        assert_eq!(log.audit().await.unwrap().events, sent.len() as u64);
        log.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_has_every_event_while_it_is_indexed() {
    let world = World::on_sqlite().await;
    let folder = tempfile::tempdir().unwrap();
    for limits in [lazy(), eager()] {
        let log = open(&folder, &limits).await;
        let mut chain = Chain::new(&world);
        let mut expected = Vec::new();
        let scope = scope_of(&chain.clone().next());
        for step in 0..30 {
            let event = chain.next();
            receipt(&log, &event).await;
            expected.insert(0, id_of(&event));
            if step % 4 == 0 {
                log.sequence(1_000).await.unwrap();
            }
            assert_eq!(activity(&log, &scope).await, expected, "step {step}");
        }
        // A reader without a writer finds the events in the table.
        let reader = open(&folder, &limits).await;
        assert_eq!(activity(&reader, &scope).await, expected);
        reader.close().await;
        quiet(&log).await;
        assert_eq!(activity(&log, &scope).await, expected);
        log.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_index_the_same_log() {
    let world = World::on_sqlite().await;
    let folder = tempfile::tempdir().unwrap();
    let logs = [open(&folder, &eager()).await, open(&folder, &eager()).await];
    let mut chain = Chain::new(&world);
    let mut sent = Vec::new();
    for round in 0..120 {
        let event = chain.next();
        sent.push((receipt(&logs[round % 2], &event).await, event));
        let (known, before) = &sent[round * 5 % sent.len()];
        assert_eq!(take(&logs[(round + 1) % 2], before).await, AppendOutcome::Receipt(*known), "round {round}");
        if round % 9 == 0 {
            logs[round % 2].sequence(1_000).await.unwrap();
        }
    }
    let mut chains: Vec<Chain> = (0..4).map(|_| Chain::new(&world)).collect();
    let groups: Vec<Vec<Value>> = chains.iter_mut().map(|chain| (0..60).map(|_| chain.next()).collect()).collect();
    let one = async {
        for event in groups[0].iter().chain(&groups[1]) {
            receipt(&logs[0], event).await;
        }
    };
    let other = async {
        for event in groups[2].iter().chain(&groups[3]) {
            receipt(&logs[1], event).await;
        }
    };
    tokio::join!(one, other);
    for (number, log) in logs.iter().enumerate() {
        for (known, event) in &sent {
            assert_eq!(take(log, event).await, AppendOutcome::Receipt(*known));
            let proof = log.proof(&scope_of(event), id_of(event).parse().unwrap()).await.unwrap();
            assert_eq!(proof.status, 200, "{number}");
        }
        quiet(log).await;
        assert_eq!(log.audit().await.unwrap().events, 360);
        assert_eq!(activity(log, &scope_of(&sent[0].1)).await.len(), 120);
    }
    for log in logs {
        log.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn indexes_that_cannot_be_written_stop_no_append_and_are_written_later() {
    let world = World::on_sqlite().await;
    let folder = tempfile::tempdir().unwrap();
    let log = open(&folder, &lazy()).await;
    let mut chain = Chain::new(&world);
    for _ in 0..10 {
        receipt(&log, &chain.next()).await;
    }
    let stranger = rusqlite::Connection::open(folder.path().join("statistics.db")).unwrap();
    stranger.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    stranger.execute_batch("ALTER TABLE activity RENAME TO elsewhere").unwrap();
    let mut failed = 0;
    for _ in 0..6 {
        receipt(&log, &chain.next()).await;
        failed += usize::from(log.sequence(100).await.is_err()) + usize::from(log.sequence(100).await.is_err());
    }
    assert!(failed > 0);
    stranger.execute_batch("ALTER TABLE elsewhere RENAME TO activity").unwrap();
    quiet_in_time(&log).await;
    assert_eq!(log.audit().await.unwrap().events, 16);
    log.close().await;
}

/// After a failure a pass is tried again some seconds later.
async fn quiet_in_time(log: &Log) {
    while log.standing().await.unwrap().unindexed > 0 {
        let _ = log.sequence(100).await;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
