//! The table of nodes, and clocks that follow the database's.

use chrono::TimeDelta;
use domain::actor_key::CrashRecord;
use domain::batch::{BatchKind, Item};
use domain::ids::{BatchId, NodeId};
use domain::node::{NodeRecord, NodeTraits, SettingPrints};
use domain::{Clock, Digest};
use serde_json::{Value, json};
use store::Store;
use store::batch::{BatchCreate, Lease, NewBatch};
use store::janitor::PurgeSettings;
use store::node::NodeBeat;

use crate::world::{World, at, now};
use harness::on_each_database;

pub fn traits(world: &World, name: &str) -> NodeTraits {
    NodeTraits {
        id: NodeId::from(world.rng.uuid_v7(now())),
        name: name.into(),
        address: "10.0.0.1:8080".into(),
        operator_address: format!("{name}:8081"),
        version: "1.2.3".into(),
        configuration: Digest::of(name.as_bytes()),
        settings: SettingPrints::of(json!({ "http": { "auth_name": name } }).as_object().unwrap()),
        started_at: now(),
        clock_ahead: TimeDelta::milliseconds(-1234),
    }
}

pub fn beat(traits: &NodeTraits) -> NodeBeat<'_> {
    NodeBeat {
        traits,
        unready: None,
        is_draining: false,
        has_sequencer: false,
        runner: "runner",
        crashed_keys: &[],
        tree: &Value::Null,
    }
}

async fn names(store: &Store) -> Vec<String> {
    let nodes = store.nodes(Clock::system().now()).await.unwrap();
    let mut names: Vec<String> = nodes.into_iter().map(|node| node.traits.name).collect();
    names.sort();
    names
}

async fn batch(world: &World, id: BatchId) {
    let ada = world.account("ada@example.com").await;
    let items = [Item::Url("https://example.com/".into())];
    let new = NewBatch {
        id,
        kind: BatchKind::Batch,
        account: &ada,
        spaces: &[],
        key_spaces: None,
        items: &items,
        key: None,
        request: None,
    };
    assert_eq!(world.store.batch_create(&new, 4, now()).await.unwrap(), BatchCreate::Created);
}

on_each_database! {
    async fn a_node_is_read_as_it_wrote_itself_and_its_last_beat_counts(world: &World) {
        let (store, clock) = (&world.store, Clock::system());
        let one = traits(world, "one");
        let id = BatchId::from(world.rng.uuid_v7(now()));
        batch(world, id).await;
        let until = now() + TimeDelta::seconds(9);
        assert_eq!(store.batch_lease(id, "runner", until, now()).await.unwrap(), Lease::Held { is_cancelled: false });
        store.node_beat(&beat(&one), clock.now()).await.unwrap();
        let crash = CrashRecord {
            key: "batches:1".into(),
            crashes: 3,
            error: "no\0 such row".into(),
            request_id: None,
            last_crash_at: at(-1),
            quarantined_until: Some(at(60)),
        };
        let keys = [crash];
        let tree = json!({ "name": "root" });
        let busy = NodeBeat { crashed_keys: &keys, tree: &tree, unready: Some("store: no\0answer"), is_draining: true, has_sequencer: true, ..beat(&one) };
        store.node_beat(&busy, clock.now()).await.unwrap();
        let nodes = store.nodes(clock.now()).await.unwrap();
        let [node] = &nodes[..] else { panic!("{nodes:?}") };
        assert_eq!((&node.traits, &node.crashed_keys[..]), (&one, &keys[..]));
        assert_eq!(store.node_tree(one.id).await.unwrap(), Some(tree));
        assert_eq!((node.is_draining, node.has_sequencer, node.batches), (true, true, 1));
        assert_eq!(node.unready.as_deref(), Some("store: no\u{fffd}answer"));
        assert!(!node.is_silent() && node.silent_for < TimeDelta::seconds(10), "{node:?}");
        store.node_remove(one.id).await.unwrap();
        assert_eq!(store.nodes(clock.now()).await.unwrap(), Vec::<NodeRecord>::new());
    }

    async fn a_node_takes_the_place_of_an_earlier_process(world: &World) {
        let (store, clock) = (&world.store, Clock::system());
        let [one, other] = ["one", "other"].map(|name| traits(world, name));
        let successor = traits(world, "one");
        for node in [&one, &other, &successor] {
            store.node_beat(&beat(node), clock.now()).await.unwrap();
        }
        store.node_succeed(&successor).await.unwrap();
        // A file has one server at a time.
        let expected: &[&str] = if store.pool().is_postgres() { &["one", "other"] } else { &["one"] };
        assert_eq!(names(store).await, expected);
    }

    async fn a_node_that_ended_without_stopping_goes_after_a_day(world: &World) {
        let (store, clock) = (&world.store, Clock::system());
        store.node_beat(&beat(&traits(world, "one")), clock.now()).await.unwrap();
        let settings = PurgeSettings::default();
        assert_eq!(store.purge(clock.now() + TimeDelta::hours(23), &settings).await.unwrap().nodes, 0);
        assert_eq!(store.purge(clock.now() + TimeDelta::hours(25), &settings).await.unwrap().nodes, 1);
        assert_eq!(names(store).await, Vec::<String>::new());
    }

    async fn a_clock_follows_the_database_if_that_has_one(world: &World) {
        let (store, right, wrong) = (&world.store, Clock::system(), Clock::wrong_by(TimeDelta::seconds(-60)));
        let ahead = store.clock_follow(&wrong).await.unwrap();
        let behind = right.now() - wrong.now();
        if store.pool().is_postgres() {
            let ahead = ahead.unwrap();
            assert!((ahead + TimeDelta::seconds(60)).abs() < TimeDelta::seconds(5), "{ahead}");
            assert!(behind.abs() < TimeDelta::seconds(5), "{behind}");
        } else {
            assert_eq!(ahead, None);
            assert!(behind > TimeDelta::seconds(55), "{behind}");
        }
        let given = Clock::from_fn(now);
        assert_eq!((store.clock_follow(&given).await.unwrap(), given.now()), (None, now()));
    }
}

#[tokio::test]
async fn a_runner_whose_clock_is_ahead_does_not_take_over_a_living_lease() {
    let Some(world) = World::on_postgres().await else { return };
    let (right, ahead) = (Clock::system(), Clock::wrong_by(TimeDelta::seconds(60)));
    for clock in [&right, &ahead] {
        world.store.clock_follow(clock).await.unwrap().unwrap();
    }
    let id = BatchId::from(world.rng.uuid_v7(now()));
    batch(&world, id).await;
    let lease = async |runner, clock: &Clock| {
        let now = clock.now();
        world.store.batch_lease(id, runner, now + TimeDelta::seconds(30), now).await.unwrap()
    };
    assert_eq!(lease("right", &right).await, Lease::Held { is_cancelled: false });
    assert_eq!(world.store.batches_adrift(ahead.now(), 10).await.unwrap(), []);
    assert_eq!(lease("ahead", &ahead).await, Lease::Refused);
}
