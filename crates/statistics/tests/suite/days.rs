//! Filters of activity, numbers of events per day and lane, and the next event of a chain.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use domain::envelope::Lane;
use domain::recorder::Recorders;
use domain::usage::Day;
use domain::{Clock, Timestamp};
use proofs::proof::AuditProof;
use serde_json::{Value, json};
use statistics::contract::{ActivityQuery, RecordScope};
use statistics::log::{AppendOutcome, DAY_EVENTS_MAX, DayQuery};

use crate::world::{Chain, World, append_at};
use harness::on_each_database;

async fn take_at(world: &World, event: &Value, at: Timestamp) {
    let outcome = world.log.append(&[append_at(event, &world.rng, at)]).await.unwrap().remove(0);
    assert!(matches!(outcome, AppendOutcome::Receipt(_)), "{outcome:?}");
}

fn llm(chain: &mut Chain) -> Value {
    chain.next_with(|event| {
        event["event_type"] = json!("llm.failed");
        event["lane"] = json!("llm");
    })
}

fn of_agent(chain: &mut Chain, agent: &str) -> Value {
    chain.next_with(|event| event["scope"]["agent_id"] = json!(agent))
}

fn ids(events: &[&Value]) -> Vec<String> {
    events.iter().map(|event| event["event_id"].as_str().unwrap().to_owned()).collect()
}

async fn page(world: &World, scope: &RecordScope, query: ActivityQuery) -> Vec<String> {
    let answer = world.log.activity(scope, &query).await.unwrap();
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    ids(&body["events"].as_array().unwrap().iter().collect::<Vec<_>>())
}

/// Computers, and recorders of the service.
fn scope_of(computers: &[&Chain], service: &[&Chain]) -> RecordScope {
    let recorders = |chains: &[&Chain]| chains.iter().map(|chain| chain.recorder()).collect();
    let shown = Recorders { computers: recorders(computers), service: recorders(service), ..Recorders::default() };
    RecordScope { shown, ..RecordScope::default() }
}

fn today() -> Day {
    Day::of(Clock::system().now())
}

fn all_days() -> DayQuery {
    let end = today().next();
    DayQuery { first: Day::from(end.number() - 30), end, machine: None, agent: None, lane: None }
}

fn noon(days_ago: i64) -> Timestamp {
    Day::from(today().number() - days_ago).begin() + TimeDelta::hours(12)
}

on_each_database! {
    async fn activity_is_filtered_by_computer_agent_and_end(world: World) {
        let (mut one, mut two) = (Chain::new(&world), Chain::new(&world));
        let events = [one.next(), two.next(), llm(&mut one)];
        for (days_ago, event) in [3, 2, 1].iter().zip(&events) {
            take_at(&world, event, noon(*days_ago)).await;
        }
        let mut other = Chain::new(&world);
        let codex = of_agent(&mut other, "codex");
        take_at(&world, &codex, noon(0)).await;
        let scope = scope_of(&[&one, &two, &other], &[]);
        let query = ActivityQuery::default;
        let of_one = ActivityQuery { machine: Some(one.recorder().machine), ..query() };
        assert_eq!(page(&world, &scope, of_one.clone()).await, ids(&[&events[2], &events[0]]));
        assert_eq!(page(&world, &scope, ActivityQuery { lane: Some(Lane::Llm), ..of_one }).await, ids(&[&events[2]]));
        let of_codex = ActivityQuery { agent: Some("codex".to_owned()), ..query() };
        assert_eq!(page(&world, &scope, of_codex).await, ids(&[&codex]));
        let until = |moment: Timestamp| ActivityQuery { until: Some(moment.timestamp_millis()), ..query() };
        assert_eq!(page(&world, &scope, until(noon(1))).await, ids(&[&events[1], &events[0]]));
        assert_eq!(page(&world, &scope, until(noon(1) + TimeDelta::milliseconds(1))).await.len(), 3);
        // A computer outside of the scope adds nothing.
        let foreign = ActivityQuery { machine: Some(Chain::new(&world).recorder().machine), ..query() };
        assert!(page(&world, &scope, foreign).await.is_empty());
    }

    async fn events_are_counted_by_day_and_lane_as_far_as_the_scope_reaches(world: World) {
        let (mut own, mut foreign) = (Chain::new(&world), Chain::new(&world));
        let mut service = Chain::new(&world);
        for days_ago in [40, 29, 29, 1, 0, 0, 0] {
            let event = own.next();
            take_at(&world, &event, noon(days_ago)).await;
        }
        let failed = llm(&mut own);
        take_at(&world, &failed, noon(1)).await;
        let event = foreign.next();
        take_at(&world, &event, noon(1)).await;
        for about in [&own, &foreign] {
            let report = service.next_with(|event| {
                event["scope"]["agent_id"] = json!("svc-control-plane");
                event["event_type"] = json!("consent.changed");
                event["lane"] = json!("security");
                event["payload"] = json!({ "machine_uuid": about.recorder().machine });
            });
            take_at(&world, &report, noon(2)).await;
        }
        let scope = scope_of(&[&own], &[&service]);
        let day = |days_ago: i64| Day::from(today().number() - days_ago);
        let expected = BTreeMap::from([
            ((day(29), Lane::Memory), 2),
            ((day(2), Lane::Security), 1),
            ((day(1), Lane::Memory), 1),
            ((day(1), Lane::Llm), 1),
            ((day(0), Lane::Memory), 3),
        ]);
        // The second call reads ended days from the cache.
        for _ in 0..2 {
            let counts = world.log.days(&scope, &all_days()).await.unwrap();
            assert_eq!((counts.events, counts.more, counts.since), (expected.clone(), Vec::new(), None));
        }
        let event = own.next();
        take_at(&world, &event, noon(0)).await;
        let counts = world.log.days(&scope, &DayQuery { lane: Some(Lane::Memory), ..all_days() }).await.unwrap();
        assert_eq!(counts.events.values().sum::<u64>(), 7);
        let of_foreign = DayQuery { machine: Some(foreign.recorder().machine), ..all_days() };
        assert!(world.log.days(&scope, &of_foreign).await.unwrap().events.is_empty());
    }

    async fn a_day_with_very_many_events_counts_as_the_largest_number(world: World) {
        let mut chain = Chain::new(&world);
        let event = chain.next();
        take_at(&world, &event, noon(1)).await;
        // Only rows of the index: the count reads nothing else.
        let max = i64::from(DAY_EVENTS_MAX);
        let pool = world.pool().await;
        let copies = if pool.is_postgres() {
            "INSERT INTO events (event_id, receipt_id, source_id, event_type, ts_edge_ms, consent_level, redacted, chain_epoch, seq,
                self, received_at_ms, leaf_hash, canonical)
            SELECT gen_random_uuid(), e.receipt_id, e.source_id, e.event_type, e.ts_edge_ms, e.consent_level, e.redacted, 1, n,
                e.self, e.received_at_ms, e.leaf_hash, e.canonical FROM events e CROSS JOIN generate_series(1, $1) n"
        } else {
            "INSERT INTO activity (source_id, received_at_ms, id)
            WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < $1)
            SELECT e.source_id, e.received_at_ms, -n.n FROM events e CROSS JOIN n"
        };
        store::pool::query(copies).bind(max).execute(pool.writer()).await.unwrap();
        let counts = world.log.days(&scope_of(&[&chain], &[]), &all_days()).await.unwrap();
        let yesterday = (Day::from(today().number() - 1), Lane::Memory);
        assert_eq!((counts.events.get(&yesterday), counts.more), (Some(&u64::from(DAY_EVENTS_MAX)), vec![yesterday]));
    }

    async fn the_next_event_of_a_chain_is_found_across_lanes(world: World) {
        let mut chain = Chain::new(&world);
        let mut events = Vec::new();
        for number in 0..6 {
            let event = if number % 2 == 0 { chain.next() } else { llm(&mut chain) };
            take_at(&world, &event, Clock::system().now()).await;
            events.push(event);
        }
        let scope = scope_of(&[&chain], &[]);
        let stranger = scope_of(&[&Chain::new(&world)], &[]);
        for indexed in [false, true] {
            if indexed {
                world.log.sequence(100).await.unwrap();
            }
            for (place, event) in events.iter().enumerate() {
                let id = event["event_id"].as_str().unwrap().parse().unwrap();
                let proof = AuditProof::parse(&world.log.proof(&scope, id).await.unwrap().body).unwrap();
                let at = Clock::system().now().timestamp_millis() - 2_000;
                let next = world.log.follower(&scope, &proof, at).await.unwrap().map(|id| id.to_string());
                let expected = events.get(place + 1).map(|next| next["event_id"].as_str().unwrap().to_owned());
                assert_eq!(next, expected, "{place}, indexed: {indexed}");
                assert_eq!(world.log.follower(&stranger, &proof, at).await.unwrap(), None);
            }
        }
    }

    async fn the_next_event_of_a_fast_chain_is_found(world: World) {
        let mut chain = Chain::new(&world);
        let events: Vec<Value> = (0..200).map(|_| chain.next()).collect();
        let begin = noon(1);
        let at = |place: usize| begin + TimeDelta::milliseconds(5 * i64::try_from(place).unwrap());
        for (place, event) in events.iter().enumerate() {
            take_at(&world, event, at(place)).await;
        }
        world.log.sequence(1_000).await.unwrap();
        let scope = scope_of(&[&chain], &[]);
        for place in [0, 70, 150, 198, 199] {
            let id = events[place]["event_id"].as_str().unwrap().parse().unwrap();
            let proof = AuditProof::parse(&world.log.proof(&scope, id).await.unwrap().body).unwrap();
            let next = world.log.follower(&scope, &proof, at(place).timestamp_millis()).await.unwrap();
            let expected = events.get(place + 1).map(|event| event["event_id"].as_str().unwrap().to_owned());
            assert_eq!(next.map(|id| id.to_string()), expected, "{place}");
        }
    }
}
