//! Chains are in order in the tree, for any numbers of their events.

use domain::Rng;
use statistics::log::{AppendOutcome, Log, LogError};
use store::pool::{query, script};

use crate::world::{Chain, ORIGIN, World, append_of};

/// Changes the sequence of events behind the running log.
async fn change(world: &World, sql: &'static str) {
    script(sql).execute(world.pool().await.writer()).await.unwrap();
}

/// Appends the next event of a chain on one of the nodes.
async fn take(log: &Log, rng: &Rng, chain: &mut Chain) {
    let outcomes = log.append(&[append_of(&chain.next(), rng)]).await.unwrap();
    assert!(matches!(outcomes[0], AppendOutcome::Receipt(_)), "{outcomes:?}");
}

/// Number of events with a smaller number than their predecessor.
async fn inversions(world: &World) -> i64 {
    let sql = "SELECT COUNT(*) FROM events e JOIN events p ON p.event_id = e.prev_event_id WHERE e.id < p.id";
    let (count,): (i64,) = query(sql).fetch_one(&world.pool().await).await.unwrap();
    count
}

/// Places every event, `events_max` at a time, and checks that no pass with waiting events places none.
async fn place_all(world: &World, events_max: u32, events: u64) {
    while world.log.standing().await.unwrap().unplaced > 0 {
        let sequenced = world.log.sequence(events_max).await.unwrap();
        assert!((1..=events_max).contains(&sequenced.added), "{sequenced:?}");
    }
    let audited = world.log.audit().await.unwrap();
    assert_eq!((audited.events, audited.checkpoint.size), (events, events));
    ordered(world).await;
}

/// Checks that the place of each event is after its predecessor's, and each epoch after the earlier epochs.
async fn ordered(world: &World) {
    let sql = "SELECT CAST(s.machine_id AS TEXT) || s.agent_id, e.chain_epoch, e.seq FROM leaves l JOIN events e ON e.id = l.event
        JOIN sources s ON s.id = e.source_id ORDER BY l.leaf_index";
    let rows: Vec<(String, i64, i64)> = query(sql).fetch_all(&world.pool().await).await.unwrap();
    let mut last = std::collections::HashMap::new();
    for (chain, epoch, seq) in rows {
        let before = last.insert(chain, (epoch, seq));
        assert!(before.is_none_or(|before| before < (epoch, seq)), "{before:?}, then {epoch}, {seq}");
    }
}

/// The log, and two further nodes.
async fn nodes(world: &World) -> [Log; 2] {
    [world.another(ORIGIN).await.unwrap(), world.another(ORIGIN).await.unwrap()]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sequence_that_begins_to_cache_changes_no_order_on_postgres() {
    const CHAINS: usize = 4;
    const ROUNDS: usize = 40;
    let Some(world) = World::on_postgres().await else { return };
    let nodes = nodes(&world).await;
    let mut chains: Vec<Chain> = (0..CHAINS).map(|_| Chain::new(&world)).collect();
    for chain in &mut chains {
        take(&nodes[0], &world.rng, chain).await;
    }
    change(&world, "ALTER SEQUENCE events_id_seq CACHE 100").await;
    for round in 0..ROUNDS {
        for (number, chain) in chains.iter_mut().enumerate() {
            if round == 10 * (number + 1) {
                // The first event of an epoch names no predecessor.
                *chain = chain.again(u64::try_from(round).unwrap());
            }
            take(&nodes[(round + number) % 2], &world.rng, chain).await;
        }
        // Fewer events than wait, so that passes start in the middle of each chain.
        world.log.sequence(3).await.unwrap();
        if round % 10 == 9 {
            world.log.audit().await.unwrap();
        }
    }
    assert!(inversions(&world).await > 0, "the test does what it says");
    place_all(&world, 5, ((ROUNDS + 1) * CHAINS) as u64).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sessions_of_one_node_that_cache_numbers_change_no_order_on_postgres() {
    const EVENTS: usize = 30;
    let Some(world) = World::on_postgres().await else { return };
    change(&world, "ALTER SEQUENCE events_id_seq CACHE 100").await;
    let senders = (0..6).map(|_| {
        let mut chain = Chain::new(&world);
        let (log, rng) = (&world.log, &world.rng);
        async move {
            for _ in 0..EVENTS {
                take(log, rng, &mut chain).await;
            }
        }
    });
    futures_util::future::join_all(senders).await;
    place_all(&world, 50, 6 * EVENTS as u64).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sequence_that_is_set_back_changes_no_order_on_postgres() {
    let Some(world) = World::on_postgres().await else { return };
    let mut chains = [Chain::new(&world), Chain::new(&world)];
    let mut events = 0;
    // Each block of numbers is before the previous one, and half of the events wait.
    for begin in [
        "SELECT setval('events_id_seq', 9000)",
        "SELECT setval('events_id_seq', 5000)",
        "SELECT setval('events_id_seq', 100)",
    ] {
        change(&world, begin).await;
        for _ in 0..20 {
            for chain in &mut chains {
                take(&world.log, &world.rng, chain).await;
                events += 1;
            }
            // Fewer than arrive, so that others wait with later numbers.
            world.log.sequence(1).await.unwrap();
        }
        chains[1] = chains[1].again(events);
    }
    assert!(inversions(&world).await > 0);
    place_all(&world, 7, events).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_whose_sequence_caches_is_not_opened_on_postgres() {
    const REMEDY: &str = "ALTER SEQUENCE statistics.events_id_seq CACHE 1";
    let Some(world) = World::on_postgres().await else { return };
    change(&world, "ALTER SEQUENCE events_id_seq CACHE 100").await;
    let refused = world.another(ORIGIN).await.unwrap_err();
    assert!(matches!(refused, LogError::CachedSequence { cache: 100, .. }), "{refused:?}");
    assert!(refused.to_string().contains(REMEDY), "{refused}");
    change(&world, REMEDY).await;
    world.another(ORIGIN).await.unwrap();
}
