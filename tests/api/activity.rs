//! Reading activity, with held events (`docs/protocol/audit.md`).

use serde_json::{Value, json};

use blackbox::client::Credential;
use blackbox::world::World;
use harness::event::Chain;
use harness::{on_each_database, on_sqlite};

fn ids(page: &Value) -> Vec<String> {
    page["events"].as_array().unwrap().iter().map(|event| event["event_id"].as_str().unwrap().to_owned()).collect()
}

on_each_database! {
    async fn activity_is_paginated_newest_first(world: World) {
        let machine = world.machine().await;
        let mut chain = Chain::new(&machine);
        let mut sent = Vec::new();
        for _ in 0..7 {
            let event = chain.next();
            sent.push(event["event_id"].as_str().unwrap().to_owned());
            world.event(&machine, &event).await.receipt();
        }
        sent.reverse();
        let mut seen = Vec::new();
        let mut query = "?limit=3".to_owned();
        let mut pages = 0;
        loop {
            let page = world.activity(&machine, &query).await.expect(200);
            // Held events are on the first page only.
            assert_eq!(page.get("unclassified").is_some(), pages == 0, "{page}");
            seen.extend(ids(&page));
            pages += 1;
            match page["next_cursor"].as_str() {
                Some(cursor) => query = format!("?limit=3&cursor={cursor}"),
                None => break,
            }
        }
        assert_eq!(seen, sent);
        assert_eq!(pages, 3);
        let entry = &world.activity(&machine, "?limit=1").await.expect(200)["events"][0];
        let members = ["agent_id", "chain_epoch", "consent_level", "event_id", "event_type", "lane", "machine_uuid", "proof_status", "receipt_id", "received_at", "redacted", "seq", "summary", "tone", "ts_edge_ms"];
        let mut shown: Vec<&str> = entry.as_object().unwrap().keys().map(String::as_str).collect();
        shown.sort_unstable();
        assert_eq!(shown, members);
        assert_eq!((&entry["summary"], &entry["tone"]), (&json!("Stored a memory"), &json!("plain")));
    }
}

on_sqlite! {
    async fn a_cursor_of_another_account_shows_nothing_of_it(world: World) {
        let (ada, bob) = (world.person("ada@example.com").await, world.person("bob@example.com").await);
        let (machine, other) = (world.attached_machine(&ada).await, world.attached_machine(&bob).await);
        let (mut chain, mut others) = (Chain::new(&machine), Chain::new(&other));
        let mut sent = Vec::new();
        for _ in 0..3 {
            let event = others.next();
            sent.push(event["event_id"].as_str().unwrap().to_owned());
            world.event(&other, &event).await.receipt();
            world.event(&machine, &chain.next()).await.receipt();
        }
        for holder in [Credential::from(&machine), ada.cookie.clone()] {
            let page = world.activity(holder, "?limit=1").await.expect(200);
            let query = format!("?limit=10&cursor={}", page["next_cursor"].as_str().unwrap());
            for reader in [Credential::from(&other), bob.cookie.clone()] {
                let response = world.activity(reader, &query).await;
                let seen = if response.status == 200 { ids(&response.json()) } else { Vec::new() };
                assert!(seen.iter().all(|id| sent.contains(id)), "{response:?}");
                assert!(!String::from_utf8_lossy(&response.body).contains(&machine.uuid), "{response:?}");
            }
        }
    }
}

on_each_database! {
    async fn activity_is_filtered_by_lane_and_since(world: World) {
        let machine = world.machine().await;
        let mut chain = Chain::new(&machine);
        world.event(&machine, &chain.next()).await.receipt();
        world.advance(std::time::Duration::from_mins(1));
        let then = world.clock().now();
        let llm = chain.next_with(|event| {
            event["event_type"] = json!("llm.failed");
            event["lane"] = json!("llm");
            event["payload"] = json!({ "model": "m" });
        });
        world.event(&machine, &llm).await.receipt();
        let llm_id = vec![llm["event_id"].as_str().unwrap().to_owned()];
        assert_eq!(ids(&world.activity(&machine, "?lane=llm").await.expect(200)), llm_id);
        assert!(ids(&world.activity(&machine, "?lane=rsi").await.expect(200)).is_empty());
        let since = format!("?since={}", then.timestamp_millis());
        assert_eq!(ids(&world.activity(&machine, &since).await.expect(200)), llm_id);
        let since = format!("?since={}", then.to_rfc3339_opts(chrono::SecondsFormat::Millis, true));
        assert_eq!(ids(&world.activity(&machine, &since).await.expect(200)), llm_id);
        world.activity(&machine, "?since=yesterday").await.refused(400, "invalid_since");
        world.activity(&machine, "?cursor=nonsense").await.refused(400, "invalid_cursor");
    }
}

on_sqlite! {
    async fn activity_of_a_computer_is_its_own_and_of_an_account_all_its_computers(world: World) {
        let person = world.person("ada@example.com").await;
        let stranger = world.person("bob@example.com").await;
        let agent = world.agent_of(&person).await;
        let machines = [world.attached_machine(&person).await, world.attached_machine(&person).await];
        for machine in &machines {
            world.event(machine, &Chain::new(machine).next()).await.receipt();
        }
        for machine in &machines {
            assert_eq!(ids(&world.activity(machine, "").await.expect(200)).len(), 1);
        }
        assert_eq!(ids(&world.activity(person.cookie, "").await.expect(200)).len(), 2);
        assert_eq!(ids(&world.activity(agent.token, "").await.expect(200)).len(), 2);
        assert_eq!(ids(&world.activity(stranger.cookie, "").await.expect(200)).len(), 0);
    }

    async fn held_events_in_activity_are_newest_first_and_at_most_a_hundred(world: World) {
        let machine = world.machine().await;
        for n in 0..101 {
            world.event(&machine, &json!({ "n": n })).await.held("malformed_envelope");
            if n == 99 {
                assert_eq!(world.activity(&machine, "").await.expect(200)["unclassified_truncated"], false);
            }
        }
        let page = world.activity(&machine, "").await.expect(200);
        let entries = page["unclassified"].as_array().unwrap();
        assert_eq!((entries.len(), &page["unclassified_truncated"]), (100, &json!(true)));
        let times: Vec<&str> = entries.iter().map(|entry| entry["received_at"].as_str().unwrap()).collect();
        assert!(times.is_sorted_by(|a, b| a >= b));
        let entry = entries[0].as_object().unwrap();
        assert_eq!(entry.len(), 6);
        assert_eq!((&entry["event_id"], &entry["reason"]), (&Value::Null, &json!("malformed_envelope")));
        assert_eq!(entry["machine_uuid"], machine.uuid);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_of_the_activity_query_has_its_error_code() {
    let world = World::on_sqlite().await;
    let machine = world.machine().await;
    for limit in ["0", "501", "-1", "1.5", "", "many"] {
        world.activity(&machine, &format!("?limit={limit}")).await.refused(400, "invalid_limit");
    }
    assert_eq!(world.activity(&machine, "?limit=500").await.status, 200);
    world.activity(&machine, &format!("?cursor={}", "x".repeat(1025))).await.refused(400, "cursor_too_long");
    world.activity(&machine, &format!("?cursor={}", "%C3%A9".repeat(513))).await.refused(400, "cursor_too_long");
    world.activity(&machine, "?lane=dream").await.refused(400, "lane_not_in_enum");
    let response = world.activity(&machine, "").await;
    assert_eq!(response.header("cache-control"), Some("no-store"));
    assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(response.header("content-security-policy"), Some("sandbox; default-src 'none'"));
}
