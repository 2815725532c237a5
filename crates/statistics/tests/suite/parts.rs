//! Several parts of the log answer as one log with all events.

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use domain::Timestamp;
use domain::log_part::LogPart;
use domain::recorder::Recorders;
use http::StatusCode;
use serde_json::Value;
use statistics::contract::{ActivityQuery, Passed, RecordScope};
use statistics::log::LogError;
use statistics::parts::{Logs, PartSlot};

use crate::world::{Chain, World, append_at};

const PARTS: u16 = 3;

/// A log with all events, and the same events in parts.
struct Both {
    whole: World,
    parts: Vec<World>,
    logs: Logs,
    chains: Vec<Chain>,
}

impl Both {
    /// `times` has the milliseconds at which the events of the chains in turn are received.
    async fn new(chains: usize, times: &[i64]) -> Self {
        let whole = World::on_sqlite().await;
        let mut parts = Vec::new();
        for _ in 0..PARTS {
            parts.push(World::on_sqlite().await);
        }
        let further = (1..PARTS).map(|part| (LogPart::new(part), PartSlot::open(parts[usize::from(part)].log.clone())));
        let logs = Logs::new(parts[0].log.clone(), further.collect());
        let mut chains: Vec<Chain> = (0..chains).map(|_| Chain::new(&whole)).collect();
        let count = chains.len();
        for (number, time) in times.iter().enumerate() {
            let event = chains[number % count].next();
            let at = Timestamp::UNIX_EPOCH + TimeDelta::milliseconds(1_767_225_600_000 + time);
            for world in [&whole, &parts[number % count % usize::from(PARTS)]] {
                drop(world.log.append(&[append_at(&event, &whole.rng, at)]).await.unwrap());
            }
        }
        Self { whole, parts, logs, chains }
    }

    /// The scope of these chains.
    fn scope(&self, chains: impl Iterator<Item = usize> + Clone) -> RecordScope {
        let part = |chain: usize| LogPart::new(u16::try_from(chain).unwrap() % PARTS);
        let shown = Recorders {
            computers: chains.clone().map(|chain| self.chains[chain].recorder()).collect(),
            service: Vec::new(),
            parts: chains.map(part).collect(),
        };
        RecordScope { shown, ..RecordScope::default() }
    }
}

/// The ids of a page in order, and its cursor.
fn page(answer: &Passed) -> (Vec<String>, Option<String>) {
    assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
    let page: Value = serde_json::from_slice(&answer.body).unwrap();
    let id = |event: &Value| event["event_id"].as_str().unwrap().to_owned();
    (page["events"].as_array().unwrap().iter().map(id).collect(), page["next_cursor"].as_str().map(str::to_owned))
}

#[tokio::test]
async fn pages_of_all_parts_are_those_of_one_log() {
    let times: Vec<i64> = (0..47).map(|number| number * 7 % 47).collect();
    let both = Both::new(5, &times).await;
    for chains in [0..5, 1..2, 0..1, 2..5] {
        let scope = both.scope(chains);
        for limit in [1, 4, 500] {
            let (mut one, mut other) = (None, None);
            loop {
                let query = |cursor: &Option<String>| ActivityQuery {
                    limit: Some(limit),
                    cursor: cursor.clone(),
                    ..ActivityQuery::default()
                };
                let (expected, next) = page(&both.whole.log.activity(&scope, &query(&one)).await.unwrap());
                let (found, next_of_parts) = page(&both.logs.activity(&scope, &query(&other)).await.unwrap());
                assert_eq!(found, expected);
                assert_eq!(next_of_parts.is_some(), next.is_some());
                (one, other) = (next, next_of_parts);
                if one.is_none() {
                    break;
                }
            }
        }
    }
}

#[tokio::test]
async fn events_of_the_same_millisecond_are_on_one_page_each() {
    let both = Both::new(6, &[0; 30]).await;
    let scope = both.scope(0..6);
    let (mut seen, mut cursor, mut pages) = (BTreeMap::<String, usize>::new(), None, 0);
    loop {
        let query = ActivityQuery { limit: Some(4), cursor, ..ActivityQuery::default() };
        let (events, next) = page(&both.logs.activity(&scope, &query).await.unwrap());
        pages += 1;
        for id in events {
            *seen.entry(id).or_default() += 1;
        }
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!((seen.len(), pages), (30, 8));
    assert!(seen.values().all(|times| *times == 1), "{seen:?}");
}

#[tokio::test]
async fn a_proof_comes_from_the_part_of_the_computer_and_a_part_that_is_away_fails_its_own_readers() {
    let both = Both::new(3, &[0, 1, 2, 3]).await;
    for world in &both.parts {
        world.log.sequence(100).await.unwrap();
    }
    let (all, vkeys) = (both.scope(0..3), &mut BTreeSet::new());
    let (events, _) = page(&both.logs.activity(&all, &ActivityQuery::default()).await.unwrap());
    for id in &events {
        let proof = both.logs.proof(&all, id.parse().unwrap()).await.unwrap();
        let proof: Value = serde_json::from_slice(&proof.body).unwrap();
        assert_eq!(proof["status"], "included");
        vkeys.insert(proof["vkey"].as_str().unwrap().to_owned());
    }
    assert_eq!(vkeys.len(), 3, "each part has a key");
    let unknown = both.whole.rng.uuid_v7(Timestamp::UNIX_EPOCH).into();
    assert_eq!(both.logs.proof(&all, unknown).await.unwrap().status, StatusCode::NOT_FOUND);

    // Part 2 is configured and not open.
    let further =
        [(LogPart::new(1), PartSlot::open(both.parts[1].log.clone())), (LogPart::new(2), PartSlot::default())];
    let logs = Logs::new(both.parts[0].log.clone(), further.into());
    assert_eq!(logs.away(), [LogPart::new(2)]);
    let query = ActivityQuery::default();
    assert!(matches!(logs.activity(&all, &query).await, Err(LogError::PartAway(part)) if part == LogPart::new(2)));
    assert!(logs.proof(&all, unknown).await.is_err(), "the part may have the event");
    let own = both.scope(0..2);
    assert_eq!(page(&logs.activity(&own, &query).await.unwrap()).0.len(), 3);
    assert_eq!(logs.proof(&own, unknown).await.unwrap().status, StatusCode::NOT_FOUND);
}
