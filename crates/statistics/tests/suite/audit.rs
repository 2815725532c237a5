//! Audits: intact events are counted, and every change is detected.

use statistics::log::AuditFault;
use store::Pool;

use crate::world::{Chain, World, scope_of};
use harness::on_each_database;

/// Three chains, one with a second epoch, more than a tile of events, and two events without a place.
async fn grown(world: &World) -> usize {
    let mut chains: Vec<Chain> = (0..3).map(|_| Chain::new(world)).collect();
    let (mut count, first) = (0, chains[0].next());
    world.take(&first).await;
    for pass in 0..30 {
        if pass == 20 {
            chains[1] = chains[1].again(4);
        }
        let group: Vec<_> = (0..10).map(|n| world.append(&chains[n % 3].next())).collect();
        count += group.len();
        world.log.append(&group).await.unwrap();
        while world.log.sequence(17).await.unwrap().added > 0 {}
    }
    // An idle log is indexed after a pass without new events.
    while world.log.standing().await.unwrap().unindexed > 0 {
        world.log.sequence(17).await.unwrap();
    }
    // A proof fills the caches, which an audit must not read.
    let id = first["event_id"].as_str().unwrap().parse().unwrap();
    assert_eq!(world.log.proof(&scope_of(&first), id).await.unwrap().status, 200);
    for chain in &mut chains[..2] {
        world.take(&chain.next()).await;
    }
    count + 1
}

/// Changes rows behind the running log.
async fn spoil(pool: &Pool, sql: &'static str) {
    let result = store::pool::script(sql).execute(pool.writer()).await;
    assert!(result.unwrap() > 0, "{sql}");
}

on_each_database! {
    async fn a_log_that_was_left_alone_holds(world: World) {
        let empty = world.log.audit().await.unwrap();
        assert_eq!((empty.events, empty.chains, empty.checkpoint.size), (0, 0, 0));
        let placed = grown(&world).await as u64;
        let audited = world.log.audit().await.unwrap();
        assert_eq!((audited.events, audited.chains, audited.checkpoint.size), (placed + 2, 3, placed));
    }

    async fn a_log_holds_while_it_is_written_to(world: World) {
        grown(&world).await;
        let mut chain = Chain::new(&world);
        let writing = async {
            for _ in 0..200 {
                world.take(&chain.next()).await;
                world.log.sequence(100).await.unwrap();
            }
        };
        let reading = async {
            for _ in 0..5 {
                world.log.audit().await.unwrap();
            }
        };
        tokio::join!(writing, reading);
        assert_eq!(world.log.audit().await.unwrap().chains, 4);
    }
}

/// SQL that changes a log, and the expected fault.
type Change = (&'static str, fn(&AuditFault) -> bool);

/// Each change is applied to a separate log, on either database.
const CHANGES: [Change; 7] = [
    ("UPDATE events SET canonical = leaf_hash WHERE seq = 3", |fault| matches!(fault, AuditFault::Row { .. })),
    ("UPDATE events SET self = leaf_hash WHERE id = 50", |fault| matches!(fault, AuditFault::Event { .. })),
    ("UPDATE events SET received_at_ms = received_at_ms + 1 WHERE id = 50", |fault| {
        matches!(fault, AuditFault::Event { .. })
    }),
    ("UPDATE events SET receipt_id = event_id WHERE id = 50", |fault| matches!(fault, AuditFault::Event { .. })),
    ("DELETE FROM chain_heads WHERE chain_epoch = 4", |fault| matches!(fault, AuditFault::Head { .. })),
    ("UPDATE tiles SET hashes = (SELECT hashes FROM tiles WHERE level = 1) WHERE level = 0 AND place = 0", |fault| {
        matches!(fault, AuditFault::Tile(_))
    }),
    ("UPDATE tree SET size = size - 1", |fault| matches!(fault, AuditFault::Checkpoint(_))),
];

/// SQLite, where the place of an event follows from its row. The event with id 300 is the last of its chain.
const CHANGES_ON_SQLITE: [Change; 8] = [
    ("DELETE FROM events WHERE id = 300", |fault| matches!(fault, AuditFault::Head { .. })),
    ("DELETE FROM events WHERE id = 50", |fault| matches!(fault, AuditFault::Link { .. })),
    ("UPDATE tree SET size = size + 1", |fault| matches!(fault, AuditFault::Checkpoint(_))),
    ("DELETE FROM activity WHERE id = 50", |fault| matches!(fault, AuditFault::Index("the index of activity"))),
    ("UPDATE activity SET source_id = source_id + 1 WHERE id = 50", |fault| {
        matches!(fault, AuditFault::Index("the index of activity"))
    }),
    ("DELETE FROM id_fences WHERE first_id = (SELECT MAX(first_id) FROM id_fences)", |fault| {
        matches!(fault, AuditFault::Index("the index of ids"))
    }),
    ("UPDATE id_chunks SET entries = CAST(substr(entries, 1, length(entries) - 1) || x'7f' AS BLOB)", |fault| {
        matches!(fault, AuditFault::Index("the index of ids"))
    }),
    ("UPDATE id_chunks SET entries = CAST(x'00' || substr(entries, 2) AS BLOB)", |fault| {
        matches!(fault, AuditFault::Index("a chunk of the index of ids"))
    }),
];

/// PostgreSQL, where places are rows.
const CHANGES_ON_POSTGRES: [Change; 5] = [
    ("DELETE FROM events WHERE seq = (SELECT MAX(seq) FROM events)", |fault| matches!(fault, AuditFault::Head { .. })),
    ("DELETE FROM leaves WHERE event = 50; DELETE FROM events WHERE id = 50", |fault| {
        matches!(fault, AuditFault::Place(49))
    }),
    ("DELETE FROM leaves WHERE leaf_index = 77", |fault| matches!(fault, AuditFault::Place(77))),
    (
        "UPDATE leaves SET leaf_index = leaf_index - 1000 WHERE event IN (1, 4); UPDATE leaves SET leaf_index = 4 - event WHERE event IN (1, 4)",
        |fault| matches!(fault, AuditFault::Link { .. }),
    ),
    ("DELETE FROM unsequenced", |fault| matches!(fault, AuditFault::Unqueued(_))),
];

async fn is_found((change, is_it): Change, world: World) {
    grown(&world).await;
    spoil(&world.pool().await, change).await;
    let fault = world.log.audit().await.unwrap_err();
    assert!(is_it(&fault), "{change}: {fault:?}");
    assert!(!fault.to_string().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_is_found_on_sqlite() {
    for change in CHANGES.into_iter().chain(CHANGES_ON_SQLITE) {
        is_found(change, World::on_sqlite().await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_is_found_on_postgres() {
    for change in CHANGES.into_iter().chain(CHANGES_ON_POSTGRES) {
        let Some(world) = World::on_postgres().await else { return };
        is_found(change, world).await;
    }
}
