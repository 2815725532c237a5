//! Appending events, and reading them back.

use std::collections::BTreeSet;

use domain::chain::ChainRefusal;
use domain::recorder::Recorders;
use serde_json::{Value, json};
use statistics::contract::{ActivityQuery, RecordScope, SubmitOutcome};
use statistics::log::{AppendOutcome, LogError};

use crate::world::{Chain, World, scope_of, vectors};
use harness::on_each_database;

fn receipt(outcome: &AppendOutcome) -> domain::ids::ReceiptId {
    match outcome {
        AppendOutcome::Receipt(receipt) => *receipt,
        other => panic!("{other:?}"),
    }
}

on_each_database! {
    async fn every_variant_of_the_vectors_is_answered_as_it_says(world: World) {
        let vectors = vectors();
        let chain = vectors["chain"].as_array().unwrap();
        let variants = vectors["variants"].as_array().unwrap();
        // Each variant has a separate log.
        for variant in variants.iter().filter(|variant| variant["outcome"] != "held") {
            let world = if world.pool().await.is_postgres() { World::on_postgres().await.unwrap() } else { World::on_sqlite().await };
            let after = usize::try_from(variant["after"].as_u64().unwrap()).unwrap();
            let mut receipts = Vec::new();
            for event in chain[..after].iter().map(|link| &link["event"]).chain(variant["then"].as_array().into_iter().flatten()) {
                receipts.push((event["event_id"].clone(), receipt(&world.take(event).await)));
            }
            let outcome = world.take(&variant["event"]).await;
            let name = &variant["name"];
            match variant["outcome"].as_str().unwrap() {
                "forward" => drop(receipt(&outcome)),
                "same_receipt" => assert!(receipts.contains(&(variant["event"]["event_id"].clone(), receipt(&outcome))), "{name}"),
                _ => {
                    let SubmitOutcome::PassThrough(passed) = outcome.into() else { panic!("{name}") };
                    assert_eq!(json!(passed.status.as_u16()), variant["status"], "{name}");
                    let body: Value = serde_json::from_slice(&passed.body).unwrap();
                    assert_eq!(body["error"], variant["error"], "{name}");
                    for member in ["expected", "received"] {
                        assert!(variant.get(member).is_none_or(|wanted| *wanted == body[member]), "{name}: {body}");
                    }
                }
            }
        }
    }

    async fn a_group_is_judged_as_if_its_events_came_one_by_one(world: World) {
        let (mut one, mut two) = (Chain::new(&world), Chain::new(&world));
        let events = [one.next(), two.next(), one.next(), one.next(), two.next()];
        let mut group: Vec<_> = events.iter().map(|event| world.append(event)).collect();
        // An event that is sent twice in one group, and an event before its predecessor.
        group.push(world.append(&events[2]));
        one.next();
        group.push(world.append(&one.next()));
        let outcomes = world.log.append(&group).await.unwrap();
        let receipts: Vec<_> = outcomes[..6].iter().map(receipt).collect();
        assert_eq!(receipts[2], receipts[5]);
        assert_eq!(receipts[..5].iter().map(ToString::to_string).collect::<BTreeSet<_>>().len(), 5);
        assert!(matches!(outcomes[6], AppendOutcome::Refused { refusal: ChainRefusal::Conflict { .. }, .. }));
        // The same group again changes nothing.
        let again = world.log.append(&group).await.unwrap();
        assert_eq!(again[..6].iter().map(receipt).collect::<Vec<_>>(), receipts);
        assert_eq!(world.log.append(&[]).await.unwrap(), []);
    }

    async fn processes_that_race_for_one_chain_take_each_place_once(world: World) {
        let mut chain = Chain::new(&world);
        let events: Vec<Value> = (0..20).map(|_| chain.next()).collect();
        let tasks = (0..8).map(|_| async {
            let log = world.another(crate::world::ORIGIN).await.unwrap();
            let mut receipts = Vec::new();
            for event in &events {
                // Another process may be a step behind, or have moved the chain just now: the caller tries again.
                loop {
                    match log.append(&[world.append(event)]).await {
                        Ok(outcomes) => match &outcomes[0] {
                            AppendOutcome::Receipt(receipt) => break receipts.push(*receipt),
                            AppendOutcome::Busy => {}
                            other => panic!("{other:?}"),
                        },
                        Err(LogError::Sql { .. }) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
            }
            receipts
        });
        let all = futures_util::future::join_all(tasks).await;
        assert!(all.iter().all(|receipts| *receipts == all[0]), "one event, one receipt, whoever sends it");
        let page = world.log.activity(&scope_of(&events[0]), &ActivityQuery { limit: Some(500), ..ActivityQuery::default() }).await.unwrap();
        let page: Value = serde_json::from_slice(&page.body).unwrap();
        assert_eq!(page["events"].as_array().unwrap().len(), 20);
    }

    async fn pages_neither_repeat_nor_miss_an_event_of_many_sources(world: World) {
        let mut chains: Vec<Chain> = (0..5).map(|_| Chain::new(&world)).collect();
        let mut sent = BTreeSet::new();
        let mut shown = Recorders::default();
        for round in 0..9 {
            for chain in &mut chains {
                let event = chain.next();
                if round == 0 {
                    shown.computers.extend(scope_of(&event).shown.computers);
                }
                sent.insert(event["event_id"].as_str().unwrap().to_owned());
                receipt(&world.take(&event).await);
            }
        }
        let stranger = Chain::new(&world).next();
        receipt(&world.take(&stranger).await);
        let scope = RecordScope { shown, ..RecordScope::default() };
        let mut query = ActivityQuery { limit: Some(7), ..ActivityQuery::default() };
        let mut ids = Vec::new();
        loop {
            let page = world.log.activity(&scope, &query).await.unwrap();
            let page: Value = serde_json::from_slice(&page.body).unwrap();
            ids.extend(page["events"].as_array().unwrap().iter().map(|event| event["event_id"].as_str().unwrap().to_owned()));
            match page["next_cursor"].as_str() {
                Some(cursor) => query.cursor = Some(cursor.to_owned()),
                None => break,
            }
        }
        assert_eq!(ids.len(), 45);
        assert_eq!(ids.into_iter().collect::<BTreeSet<_>>(), sent);
    }

    async fn a_log_keeps_its_name_and_its_key(world: World) {
        let keys = world.log.keys().await.unwrap();
        let again = world.another(crate::world::ORIGIN).await.unwrap();
        assert_eq!(again.keys().await.unwrap(), keys);
        assert!(matches!(world.another("attache.test/other").await, Err(LogError::OtherOrigin { .. })));
        assert!(matches!(world.another("not a name").await, Err(LogError::Name(_))));
    }
}
