//! Specification, *Events*: forwarded, held, refused, resent (`docs/protocol/events.md` and `docs/decisions/0006-events-and-chains.md` and
//! `docs/decisions/0007-held-events.md`).

use std::time::Duration;

use domain::consent::{Author, ConsentLevel, ConsentRule};
use domain::envelope::Lane;
use serde_json::{Value, json};

use blackbox::client::Credential;
use blackbox::eventually;
use blackbox::world::World;
use harness::event::{Chain, Machine, seal};
use harness::{on_each_database, on_sqlite};

/// Types and lanes of the vectors, with payloads left free: the vectors are about hashes, not about the registry.
const VECTOR_REGISTRY: &str = "mode = \"replace\"\n";

fn vectors() -> Value {
    serde_json::from_slice(include_bytes!("../vectors/chain.json")).unwrap()
}

async fn world_of_vectors() -> (World, Machine, Value) {
    let vectors = vectors();
    let mut types = std::collections::BTreeSet::new();
    let variants = vectors["variants"].as_array().unwrap().iter();
    let events = vectors["chain"].as_array().unwrap().iter().map(|link| &link["event"]);
    for event in events.chain(variants.map(|variant| &variant["event"])) {
        types.insert((event["event_type"].as_str().unwrap(), event["lane"].as_str().unwrap()));
    }
    let entry = |(name, lane): &(&str, &str)| format!("[[event]]\nevent_type = \"{name}\"\nlane = \"{lane}\"\n");
    let registry: String = types.iter().map(entry).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{VECTOR_REGISTRY}{registry}")).unwrap();
    let world = World::with(|settings| settings.events.registry = Some(file.path().to_owned())).await;
    let body =
        json!({ "user_cuid": vectors["machine"]["user_cuid"], "machine_uuid": vectors["machine"]["machine_uuid"] });
    let made = world.post("/api/v1/machines", &Credential::None, &body).await.expect(201);
    let field = |name: &str| made[name].as_str().unwrap().to_owned();
    let machine =
        Machine { user_cuid: field("user_cuid"), uuid: field("machine_uuid"), secret: field("machine_secret") };
    (world, machine, vectors)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_variant_of_the_vectors_has_its_outcome() {
    let variants = vectors()["variants"].as_array().unwrap().clone();
    assert_eq!(variants.len(), 13);
    for variant in variants {
        let (world, machine, vectors) = world_of_vectors().await;
        let name = &variant["name"];
        let mut receipts = std::collections::BTreeMap::new();
        let after = usize::try_from(variant["after"].as_u64().unwrap()).unwrap();
        let chain = vectors["chain"].as_array().unwrap()[..after].iter().map(|link| &link["event"]);
        for event in chain.chain(variant["then"].as_array().into_iter().flatten()) {
            let receipt = world.event(&machine, event).await.receipt();
            receipts.insert(event["event_id"].to_string(), receipt);
        }
        let response = world.event(&machine, &variant["event"]).await;
        assert_eq!(json!(response.status), variant["status"], "{name}");
        match variant["outcome"].as_str().unwrap() {
            "forward" => drop(response.receipt()),
            "held" => drop(response.held(variant["reason"].as_str().unwrap())),
            "same_receipt" => {
                assert_eq!(Some(&response.receipt()), receipts.get(&variant["event"]["event_id"].to_string()));
            }
            "refused" => {
                let body = response.json();
                assert_eq!(body["error"], variant["error"], "{name}");
                for member in ["expected", "received"] {
                    if let Some(wanted) = variant.get(member) {
                        assert_eq!(&body[member], wanted, "{name}");
                    }
                }
            }
            other => panic!("{other}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_malformed_text_of_the_vectors_is_held_with_its_reason() {
    let world = World::on_sqlite().await;
    let machine = world.machine().await;
    let vectors: Value = serde_json::from_slice(include_bytes!("../vectors/canonical.json")).unwrap();
    let mut malformed = 0;
    for case in vectors["cases"].as_array().unwrap() {
        let (Some(reason), Some(raw)) = (case["malformed"].as_str(), case["raw_b64"].as_str()) else { continue };
        let raw = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, raw).unwrap();
        let warning = world.event_bytes(&machine, raw).await.held("malformed_envelope");
        assert!(warning.contains(reason), "{}: {warning}", case["name"]);
        malformed += 1;
    }
    assert!(malformed > 25, "{malformed}");
}

on_each_database! {
    async fn an_event_in_order_is_forwarded_and_a_resend_has_the_same_receipt(world: World) {
        let machine = world.machine().await;
        let mut chain = Chain::new(&machine);
        let events: Vec<Value> = (0..5).map(|_| chain.next()).collect();
        let mut receipts = Vec::new();
        for event in &events {
            let receipt = world.event(&machine, event).await.receipt();
            assert!(receipt.parse::<domain::ids::ReceiptId>().is_ok());
            receipts.push(receipt);
        }
        for (event, receipt) in events.iter().zip(&receipts) {
            assert_eq!(world.event(&machine, event).await.receipt(), *receipt);
        }
        receipts.sort();
        receipts.dedup();
        assert_eq!(receipts.len(), 5);
    }

    async fn fifty_concurrent_resends_count_once(world: World) {
        let machine = world.machine().await;
        let event = Chain::new(&machine).next();
        let sends = (0..50).map(|_| world.event(&machine, &event));
        let responses = futures_util::future::join_all(sends).await;
        let mut receipts: Vec<String> = responses.iter().map(|response| response.receipt()).collect();
        receipts.dedup();
        assert_eq!(receipts.len(), 1);
        let activity = world.activity(&machine, "").await.expect(200);
        assert_eq!(activity["events"].as_array().unwrap().len(), 1);
    }

    async fn a_new_epoch_closes_the_one_before(world: World) {
        let machine = world.machine().await;
        let mut chain = Chain::new(&machine);
        world.event(&machine, &chain.next()).await.receipt();
        let mut later = chain.clone();
        later.begin_epoch();
        world.event(&machine, &later.next()).await.receipt();
        let refused = world.event(&machine, &chain.next()).await.refused(409, "chain_conflict");
        assert_eq!(refused["expected"], json!({ "chain_epoch": 1, "seq": 1, "prev": later.prev }));
        assert_eq!(refused["received"]["chain_epoch"], 0);
        world.event(&machine, &later.next()).await.receipt();
    }

    async fn every_held_reason_is_reported_with_its_location(world: World) {
        let person = world.person("ada@example.com").await;
        let machine = world.attached_machine(&person).await;
        let other = world.machine().await;
        let chain = Chain::new(&machine);
        let peek = |change: fn(&mut Value)| chain.peek_with(change);

        let (_, pre_claim) = world.unclaimed().await;
        world.event(pre_claim, &chain.peek_with(|_| {})).await.held("unattributed");
        assert!(world.event(&machine, &json!([1])).await.held("malformed_envelope").contains("not_an_object"));
        assert!(world.event(&machine, &peek(|event| event["extra"] = json!(1))).await.held("malformed_envelope").contains("/extra"));
        assert!(world.event(&other, &peek(|_| {})).await.held("identity_mismatch").contains("/scope/machine_id"));
        assert!(world.event(&machine, &peek(|event| event["scope"]["user_id"] = json!("someoneelse"))).await.held("identity_mismatch").contains("/scope/user_id"));
        assert!(world.event(&machine, &peek(|event| event["scope"]["user_account_id"] = json!("strangersaccount"))).await.held("identity_mismatch").contains("/scope/user_account_id"));
        assert!(world.event(&machine, &peek(|event| event["event_type"] = json!("memory.dreamt"))).await.held("unknown_event_type").contains("/event_type"));
        assert!(world.event(&machine, &peek(|event| event["lane"] = json!("llm"))).await.held("lane_mismatch").contains("/lane"));
        assert!(world.event(&machine, &peek(|event| event["payload"]["content"] = json!(1))).await.held("payload_invalid").contains("/payload/content"));
        assert!(world.event(&machine, &peek(|event| event["consent_level"] = json!("off"))).await.held("payload_invalid").contains("/payload/content"));
        let mut forged = chain.peek_with(|_| {});
        forged["ts_edge_ms"] = json!(1);
        assert!(world.event(&machine, &forged).await.held("hash_mismatch").contains("/hash_chain/self"));
        let rule = ConsentRule { machine: None, lane: Some(Lane::Memory), level: ConsentLevel::MetadataOnly, set_by: Author::Person };
        let cuid = machine.user_cuid.parse().unwrap();
        world.server.app.store.consent_set(&[cuid], &rule, None, world.clock().now(), world.rng()).await.unwrap();
        assert!(world.event(&machine, &peek(|_| {})).await.held("consent_exceeded").contains("/consent_level"));
        // Another lane is not meant, and a lower level is fine.
        let metadata = peek(|event| { event["consent_level"] = json!("metadata-only"); event["payload"] = json!({ "memory_id": "m" }); });
        world.event(&machine, &metadata).await.receipt();

        let entries = world.activity(&machine, "").await.expect(200)["unclassified"].as_array().unwrap().clone();
        let mut reasons: Vec<&str> = entries.iter().map(|entry| entry["reason"].as_str().unwrap()).collect();
        reasons.sort_unstable();
        reasons.dedup();
        let all = ["consent_exceeded", "hash_mismatch", "identity_mismatch", "lane_mismatch", "malformed_envelope", "payload_invalid", "unknown_event_type"];
        assert_eq!(reasons, all);
    }
}

on_sqlite! {
    async fn an_account_sends_for_its_attached_computers_and_no_other(world: World) {
        let person = world.person("ada@example.com").await;
        let agent = world.agent_of(&person).await;
        let (mine, foreign) = (world.attached_machine(&person).await, world.machine().await);
        let mut chain = Chain::new(&mine);
        world.event(agent.token.clone(), &chain.next()).await.receipt();
        world.event(person.cookie.clone(), &chain.next()).await.receipt();
        let account = person.account.to_string();
        let mut event = chain.next_with(|event| event["scope"]["user_account_id"] = json!(account));
        world.event(&mine, &event).await.receipt();
        event = Chain::new(&foreign).next();
        assert!(world.event(agent.token, &event).await.held("identity_mismatch").contains("/scope/machine_id"));
        world.event(person.cookie, &event).await.held("identity_mismatch");
    }
}

on_each_database! {
    async fn a_corrected_resend_settles_the_held_event(world: World) {
        let machine = world.machine().await;
        let mut chain = Chain::new(&machine);
        let good = chain.next();
        let mut bad = good.clone();
        bad["hash_chain"]["self"] = json!("0".repeat(64));
        world.event(&machine, &bad).await.held("hash_mismatch");
        world.event(&machine, &bad).await.held("hash_mismatch");
        let listed = async || world.activity(&machine, "").await.expect(200)["unclassified"].as_array().unwrap().len();
        assert_eq!(listed().await, 1, "the same bytes are held once");
        world.event(&machine, &good).await.receipt();
        assert_eq!(listed().await, 0);
    }

    async fn held_events_are_judged_again_when_the_cause_is_gone(world: World) {
        let person = world.person("ada@example.com").await;
        let machine = world.machine().await;
        let mut chain = Chain::new(&machine);
        let account = person.account.to_string();
        let event = chain.next_with(|event| event["scope"]["user_account_id"] = json!(account));
        world.event(&machine, &event).await.held("identity_mismatch");
        let uuid = machine.uuid.parse().unwrap();
        world.server.app.store.machine_attach(uuid, &person.account, world.clock().now(), world.rng()).await.unwrap().unwrap();
        world.event(&machine, &event).await.receipt();
        assert_eq!(world.activity(&machine, "").await.expect(200)["unclassified"], json!([]));
    }

    async fn content_without_consent_is_in_no_file(world: World) {
        let machine = world.machine().await;
        let rule = ConsentRule { machine: None, lane: None, level: ConsentLevel::Off, set_by: Author::Person };
        let cuid = machine.user_cuid.parse().unwrap();
        world.server.app.store.consent_set(&[cuid], &rule, None, world.clock().now(), world.rng()).await.unwrap();
        let canary = "canary-that-nobody-may-keep";
        let event = Chain::new(&machine).peek_with(|event| event["payload"]["content"] = json!(canary));
        world.event(&machine, &event).await.held("consent_exceeded");
        let entry = &world.activity(&machine, "").await.expect(200)["unclassified"][0];
        assert_eq!(entry["event_id"], event["event_id"]);
        let held = world.server.app.store.held_list(&store::held::HeldFilter::default(), 10).await.unwrap();
        let (entry, body) = world.server.app.store.held_show(held[0].id).await.unwrap().unwrap();
        assert_eq!(body, None);
        assert_eq!(entry.seal.unwrap().to_string(), event["hash_chain"]["self"].as_str().unwrap());
        for file in blackbox::files(&world.dir.path().join("data")) {
            let bytes = std::fs::read(&file).unwrap();
            let found = bytes.windows(canary.len()).any(|window| window == canary.as_bytes());
            assert!(!found, "{}", file.display());
        }
    }

    async fn a_faulty_event_is_not_stored_without_consent(world: World) {
        let person = world.person("ada@example.com").await;
        let agent = world.agent_of(&person).await;
        let machine = world.attached_machine(&person).await;
        let foreign = world.machine().await;
        let canary = "canary-behind-a-fault";
        let faults: [fn(&mut Value); 5] = [
            |event| event["ts_edge_ms"] = json!(1),
            |event| { event["event_type"] = json!("memory.dreamt"); seal(event); },
            |event| { event["lane"] = json!("llm"); seal(event); },
            |event| { event["payload"]["memory_id"] = event["payload"]["content"].take(); event["payload"]["content"] = json!(1); seal(event); },
            |event| event["payload"] = event["payload"]["content"].take(),
        ];
        let spoilt = |machine: &Machine| faults.map(|fault| {
            let mut event = Chain::new(machine).peek_with(|event| event["payload"]["content"] = json!(canary));
            fault(&mut event);
            event
        });
        let store = &world.server.app.store;
        let bodies = async || {
            let mut found = Vec::new();
            for entry in store.held_list(&store::held::HeldFilter::default(), 100).await.unwrap() {
                found.push((entry.id, entry.reason, store.held_show(entry.id).await.unwrap().unwrap()));
            }
            found
        };
        for level in ["off", "metadata-only"] {
            world.post("/api/v1/consent", &person.cookie, &json!({ "level": level })).await.expect(200);
            let mut warnings = Vec::new();
            for event in spoilt(&machine) {
                warnings.push(world.event(&machine, &event).await.expect(202));
                warnings.push(world.event(agent.token.clone(), &event).await.expect(202));
            }
            for event in spoilt(&foreign) {
                warnings.push(world.event(agent.token.clone(), &event).await.expect(202));
            }
            for warning in warnings {
                assert_eq!(warning["held"], true, "{warning}");
                assert!(warning["warning"].as_str().unwrap().ends_with("its payload was not kept"), "{warning}");
            }
        }
        let held = bodies().await;
        assert_eq!(held.len(), 30);
        for (_, reason, (entry, body)) in &held {
            assert_eq!((body, entry.detail.contains(canary)), (&None, false), "{reason}");
        }
        for file in blackbox::files(&world.dir.path().join("data")) {
            let bytes = std::fs::read(&file).unwrap();
            assert!(!bytes.windows(canary.len()).any(|window| window == canary.as_bytes()), "{}", file.display());
        }

        // With consent, and without an explicit level, the held body is stored and can be released.
        world.post("/api/v1/consent", &person.cookie, &json!({ "level": "full" })).await.expect(200);
        for event in spoilt(&machine) {
            world.event(&machine, &event).await.expect(202);
            world.event(&foreign, &event).await.expect(202);
        }
        let held = bodies().await;
        assert_eq!((held.len(), held.iter().filter(|(_, _, (_, body))| body.is_some()).count()), (40, 10));
        // Content that the event's declared level forbids is never stored.
        let contradiction = Chain::new(&foreign).peek_with(|event| event["consent_level"] = json!("metadata-only"));
        world.event(&foreign, &contradiction).await.held("payload_invalid");
        assert_eq!(bodies().await[0].2.1, None);
    }
}

on_sqlite! {
    async fn held_events_of_an_unclaimed_agent_have_a_quota(world: World) {
        let (_, token) = world.unclaimed().await;
        let large = |n: u32| json!({ "n": n, "text": "x".repeat(200 * 1024) });
        for n in 0..5 {
            world.event(token.clone(), &large(n)).await.held("unattributed");
        }
        world.advance(Duration::from_mins(30));
        let response = world.event(token.clone(), &large(5)).await;
        let refused = response.refused(424, "temporarily_unavailable");
        assert_eq!((&refused["retryable"], &refused["reason"]), (&json!(true), &json!("held_quota_exceeded")));
        let pause: u64 = response.header("retry-after").unwrap().parse().unwrap();
        assert!((23 * 3600..=23 * 3600 + 1800).contains(&pause), "until the first leaves the window: {pause}");
        // A resend of a held event is not refused, and other senders are not affected.
        world.event(token.clone(), &large(0)).await.held("unattributed");
        let (_, other) = world.unclaimed().await;
        world.event(other, &large(6)).await.held("unattributed");
        world.advance(Duration::from_mins(1441));
        let (_, fresh) = world.unclaimed().await;
        world.event(fresh, &large(7)).await.held("unattributed");
    }
}

on_each_database! {
    async fn chains_of_one_machine_do_not_wait_for_each_other(world: World) {
        let machine = world.machine().await;
        let agents = ["svc-cli", "codex", "cursor", "opencode"];
        let sends = agents.iter().map(|agent| async {
            let mut chain = Chain::of_agent(&machine, agent);
            for _ in 0..10 {
                world.event(&machine, &chain.next()).await.receipt();
            }
        });
        futures_util::future::join_all(sends).await;
        let activity = world.activity(&machine, "?limit=500").await.expect(200);
        assert_eq!(activity["events"].as_array().unwrap().len(), 40);
    }

    async fn concurrent_events_of_one_chain_are_accepted_or_get_the_expected_position(world: World) {
        let machine = world.machine().await;
        let mut chain = Chain::new(&machine);
        let mut left: Vec<Value> = (0..12).map(|_| chain.next()).collect();
        // A request that is too early gets 409 and is resent unchanged.
        while !left.is_empty() {
            let responses = futures_util::future::join_all(left.iter().map(|event| world.event(&machine, event))).await;
            let mut waiting = Vec::new();
            for (event, response) in left.iter().zip(responses) {
                match response.status {
                    202 => drop(response.receipt()),
                    409 => {
                        response.refused(409, "chain_conflict");
                        waiting.push(event.clone());
                    }
                    other => panic!("{other}"),
                }
            }
            assert!(waiting.len() < left.len(), "each round takes at least one");
            left = waiting;
        }
        assert_eq!(world.activity(&machine, "").await.expect(200)["events"].as_array().unwrap().len(), 12);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_body_over_the_limit_is_held_up_to_the_hard_cap_and_then_refused() {
    let world = World::on_sqlite().await;
    let machine = world.machine().await;
    let of_size = |bytes: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes - 8));
    assert!(world.event_bytes(&machine, of_size(262_144)).await.held("malformed_envelope").contains('/'));
    assert!(world.event_bytes(&machine, of_size(262_145)).await.held("malformed_envelope").contains("too_large"));
    assert!(world.event_bytes(&machine, of_size(1_048_576)).await.held("malformed_envelope").contains("too_large"));
    world.event_bytes(&machine, of_size(1_048_577)).await.refused(413, "payload_too_large");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_registry_is_public_and_can_be_extended() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mine = "[[event]]\nevent_type = \"memory.dreamt\"\nlane = \"memory\"\n[event.payload_schema]\nrequired = [\"dream\"]\n";
    std::fs::write(file.path(), mine).unwrap();
    let world = World::with(|settings| settings.events.registry = Some(file.path().to_owned())).await;
    let described = world.get("/api/v1/events/registry", &Credential::None).await.expect(200);
    let types = described["event_types"].as_array().unwrap();
    assert_eq!(types.len(), 17);
    let dreamt = types.iter().find(|kind| kind["event_type"] == "memory.dreamt").unwrap();
    assert_eq!((&dreamt["lane"], &dreamt["payload_schema"]["required"]), (&json!("memory"), &json!(["dream"])));

    let machine = world.machine().await;
    let mut chain = Chain::new(&machine);
    let dream = |event: &mut Value| {
        event["event_type"] = json!("memory.dreamt");
        event["payload"] = json!({ "dream": "sheep" });
    };
    world.event(&machine, &chain.next_with(dream)).await.receipt();
    let mut empty = chain.peek_with(dream);
    empty["payload"] = json!({});
    seal(&mut empty);
    world.event(&machine, &empty).await.held("payload_invalid");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_another_node_has_locked_is_424_and_the_others_are_recorded_on_postgres() {
    const LOCK: &str = "SELECT 1 FROM statistics.chain_heads WHERE CAST(machine_id AS TEXT) = $1 FOR UPDATE";
    let Some(world) = World::on_postgres().await else { return };
    let (locked, free) = (world.machine().await, world.machine().await);
    let (mut of_locked, mut of_free) = (Chain::new(&locked), Chain::new(&free));
    world.event(&locked, &of_locked.next()).await.receipt();
    // A node that has stopped within a transaction.
    let mut stopped = world.log_of(&locked).await.pool().begin().await.unwrap();
    let mut connection = stopped.connection().unwrap();
    let patient = store::pool::query("SET LOCAL idle_in_transaction_session_timeout TO 0");
    patient.execute(&mut connection).await.unwrap();
    assert_eq!(store::pool::query(LOCK).bind(&locked.uuid).execute(&mut connection).await.unwrap(), 1);
    let waiting = of_locked.next();
    let (refused, ()) = tokio::join!(world.event(&locked, &waiting), async {
        for _ in 0..5 {
            world.event(&free, &of_free.next()).await.receipt();
        }
    });
    let body = refused.refused(424, "temporarily_unavailable");
    assert_eq!((&body["retryable"], refused.header("retry-after")), (&json!(true), Some("1")));
    drop(stopped);
    eventually("the lock is gone", async || (world.event(&locked, &waiting).await.status == 202).then_some(())).await;
    world.event(&locked, &of_locked.next()).await.receipt();
}
