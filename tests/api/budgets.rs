//! Budgets of senders without an account, and the retention of these senders.

use std::time::Duration;

use domain::held::HoldReason;
use domain::ids::MachineUuid;
use domain::log_part::LogPart;
use domain::usage::Plan;
use reqwest::Method;
use serde_json::{Value, json};
use statistics::contract::RecordScope;

use blackbox::client::{Credential, Response};
use blackbox::eventually;
use blackbox::world::World;
use harness::event::{Chain, Machine};
use harness::{on_each_database, on_sqlite};

const DAY: Duration = Duration::from_hours(24);

/// Sets a budget of events and bytes a day.
async fn with_budget(world: World, events_per_day: u64, bytes_per_day: u64) -> World {
    world
        .restart_with(|settings| {
            settings.events.unattached.events_per_day = events_per_day;
            settings.events.unattached.bytes_per_day = bytes_per_day;
        })
        .await
}

/// Asserts a refusal because the quota is used up; returns `Retry-After` in seconds.
#[track_caller]
fn spent(response: &Response) -> u64 {
    let refused = response.refused(424, "temporarily_unavailable");
    assert_eq!((&refused["reason"], &refused["retryable"]), (&json!("quota_exceeded"), &json!(true)));
    response.header("retry-after").unwrap().parse().unwrap()
}

fn malformed(n: u32) -> Value {
    json!({ "n": n })
}

async fn attach(world: &World, machine: &Machine) {
    let person = world.person("ada@example.com").await;
    let code = world.device_code(machine).await.expect(200);
    world.device_approve(&person.cookie, code["user_code"].as_str().unwrap()).await.expect(200);
}

on_sqlite! {
    async fn an_unattached_computer_has_a_quota_of_events(world: World) {
        let world = with_budget(world, 4, 0).await;
        let (machine, other) = (world.machine().await, world.machine().await);
        let mut chain = Chain::new(&machine);
        for _ in 0..2 {
            world.event(&machine, &chain.next()).await.receipt();
        }
        // An event that the log refuses does not count; a held event and a change of consent do.
        for _ in 0..6 {
            let early = chain.peek_with(|event| event["seq"] = json!(9));
            world.event(&machine, &early).await.refused(409, "chain_conflict");
        }
        world.event(&machine, &malformed(1)).await.held(HoldReason::MalformedEnvelope.as_str());
        world.post("/api/v1/consent", &Credential::from(&machine), &json!({ "level": "full" })).await.expect(200);
        let next = chain.next();
        let seconds = spent(&world.event(&machine, &next).await);
        assert!((1..=24 * 3600).contains(&seconds), "{seconds}");
        spent(&world.event(&machine, &malformed(2)).await);
        let change = json!({ "level": "off" });
        spent(&world.post("/api/v1/consent", &Credential::from(&machine), &change).await);
        // Reads do not count, and each computer has its own quota.
        world.activity(&machine, "").await.expect(200);
        world.event(&other, &Chain::new(&other).next()).await.receipt();

        let world = world.restart().await;
        spent(&world.event(&machine, &next).await);
        world.advance(DAY);
        world.event(&machine, &next).await.receipt();
    }

    async fn an_unattached_computer_has_a_quota_of_bytes(world: World) {
        let world = with_budget(world, 0, 40_000).await;
        let machine = world.machine().await;
        let mut chain = Chain::new(&machine);
        let large = |chain: &mut Chain| chain.next_with(|event| event["payload"]["content"] = json!("x".repeat(15_000)));
        for _ in 0..2 {
            world.event(&machine, &large(&mut chain)).await.receipt();
        }
        let third = large(&mut chain);
        spent(&world.event(&machine, &third).await);
        // An attached computer has an account, so the budget does not apply.
        attach(&world, &machine).await;
        for event in [third, large(&mut chain), large(&mut chain)] {
            world.event(&machine, &event).await.receipt();
        }
    }
}

on_each_database! {
    async fn an_account_has_a_quota_of_bytes_of_events(world: World) {
        let world = with_plans(world, 40_000).await;
        let (person, other) = (world.person("ada@example.com").await, world.person("bob@example.com").await);
        let (machine, second) = (world.attached_machine(&person).await, world.attached_machine(&person).await);
        let of_other = world.attached_machine(&other).await;
        let agent = world.agent_of(&person).await;
        let large = |chain: &mut Chain| chain.next_with(|event| event["payload"]["content"] = json!("x".repeat(15_000)));
        // All computers and agents of an account have one budget.
        let mut chain = Chain::new(&machine);
        let (first, third) = (large(&mut chain), large(&mut chain));
        world.event(&machine, &first).await.receipt();
        world.event(&second, &large(&mut Chain::new(&second))).await.receipt();
        let seconds = spent(&world.event(&machine, &third).await);
        assert!((1..=24 * 3600).contains(&seconds), "{seconds}");
        let padded = json!({ "padding": "x".repeat(15_000) });
        spent(&world.event(agent.token.clone(), &padded).await);
        world.event(&of_other, &large(&mut Chain::new(&of_other))).await.receipt();
        world.event(&machine, &malformed(1)).await.held("malformed_envelope");
        let bar = world.get("/api/v1/usage/bar", &person.cookie).await.expect(200);
        let event_bytes = &bar["limits"]["event_bytes"];
        assert!(event_bytes["limit"] == 40_000 && event_bytes["used"].as_u64().unwrap() > 30_000, "{event_bytes}");

        let world = world.restart().await;
        spent(&world.event(&machine, &third).await);
        // Another plan applies immediately, or a second after the last refusal.
        world.server.app.store.account_plan_set(&person.account, Plan::Max, world.clock().now()).await.unwrap();
        world.advance(Duration::from_secs(2));
        world.event(&machine, &third).await.receipt();
        world.server.app.store.account_plan_set(&person.account, Plan::Free, world.clock().now()).await.unwrap();
        let world = world.restart().await;
        spent(&world.event(&machine, &large(&mut chain)).await);
        world.advance(DAY);
        world.event(&machine, &third).await.receipt();
    }

    async fn an_account_has_a_quota_of_bytes_of_memories(world: World) {
        let world = world.restart_with(|settings| settings.plans.of_mut(Plan::Free).memory_bytes = 1000).await;
        let (person, key) = world.librarian("ada@example.com").await;
        let note = |letter: &str, bytes: usize| json!({ "contents": [{ "content": letter.repeat(bytes), "title": "T" }] });
        let added = async |letter: &str, bytes: usize| {
            let messages = world.add(&key, note(letter, bytes)).await.whole().await;
            messages.into_iter().find(|message| message["type"] != "progress").unwrap()
        };
        let used = async || {
            let bar = world.get("/api/v1/usage/bar", &person.cookie).await.expect(200);
            bar["limits"]["memory_bytes"]["used"].as_u64().unwrap()
        };
        let first = added("a", 600).await;
        assert_eq!(first["type"], "success", "{first}");
        assert_eq!(used().await, 601);
        assert_eq!(added("b", 600).await["error"], "quota_exceeded");
        let second = added("b", 300).await;
        assert_eq!((&second["type"], used().await), (&json!("success"), 902));
        // A change may make a memory smaller, and larger only within the quota.
        let path = |added: &Value| format!("/v1/memories/{}", added["id"].as_str().unwrap());
        let patch = async |content: String| {
            let request = world.request(Method::PATCH, &path(&second), &key);
            world.send(request.json(&json!({ "content": content }))).await
        };
        let refused = patch("c".repeat(450)).await;
        assert_eq!(refused.refused(429, "rate_limited")["reason"], "quota_exceeded");
        assert!(refused.header("retry-after").is_some());
        patch("c".repeat(390)).await.expect(200);
        assert_eq!(used().await, 992);
        patch("c".repeat(10)).await.expect(200);
        world.delete(&path(&first), &key).await.expect(200);
        assert_eq!(used().await, 11);
        assert_eq!(added("d", 900).await["type"], "success");
    }
}

on_sqlite! {
    async fn an_unclaimed_agent_has_a_quota(world: World) {
        let world = with_budget(world, 2, 0).await;
        let (_, agent) = world.unclaimed().await;
        let (_, other) = world.unclaimed().await;
        for n in 0..2 {
            world.event(agent.clone(), &malformed(n)).await.held("unattributed");
        }
        spent(&world.event(agent, &malformed(2)).await);
        world.event(other, &malformed(2)).await.held("unattributed");
        // A claimed agent acts for an account.
        let person = world.person("ada@example.com").await;
        let claimed = world.agent_of(&person).await;
        for n in 0..4 {
            world.event(claimed.token.clone(), &malformed(n)).await.held("malformed_envelope");
        }
    }
}

on_each_database! {
    async fn the_held_event_quota_of_one_sender_does_not_affect_others(world: World) {
        let world = world.restart_with(|settings| {
            settings.events.held.total_bytes = 1024 * 1024;
            settings.events.unattached.bytes_per_day = 0;
        }).await;
        let (flood, other) = (world.machine().await, world.machine().await);
        let large = |n: u32| json!({ "n": n, "padding": "x".repeat(50_000) });
        let mut held = 0;
        let refused = loop {
            let response = world.event(&flood, &large(held)).await;
            if response.status != 202 {
                break response;
            }
            held += 1;
            assert!(held < 20, "nothing stops it");
        };
        let refused = refused.refused(424, "temporarily_unavailable");
        assert_eq!((&refused["reason"], held), (&json!("held_quota_exceeded"), 5));
        for n in 0..5 {
            world.event(&other, &large(n)).await.held("malformed_envelope");
        }
        // An event that is already held needs no quota, and discarding one frees quota.
        world.event(&flood, &large(0)).await.held("malformed_envelope");
        let store = &world.server.app.store;
        let filter = store::held::HeldFilter { sender: Some(store::held::Sender::Machine(uuid_of(&flood))), ..Default::default() };
        let entry = store.held_list(&filter, 1).await.unwrap().remove(0);
        assert!(store.held_discard(entry.id, world.clock().now()).await.unwrap());
        world.event(&flood, &large(100)).await.held("malformed_envelope");
        world.event(&flood, &large(101)).await.refused(424, "temporarily_unavailable");
    }

    async fn retention_removes_idle_unattached_computers_and_frees_their_identity(world: World) {
        let person = world.person("ada@example.com").await;
        let idle = world.machine().await;
        let active = world.machine_of(&idle.user_cuid).await;
        let attached = world.attached_machine(&person).await;
        let part = world.part_of(&idle).await;
        let event = Chain::new(&idle).next();
        let recorded = event["event_id"].as_str().unwrap().parse().unwrap();
        world.event(&idle, &event).await.receipt();
        world.event(&idle, &malformed(1)).await.held("malformed_envelope");
        world.event(&active, &malformed(1)).await.held("malformed_envelope");
        world.post("/api/v1/consent", &Credential::from(&idle), &json!({ "level": "full" })).await.expect(200);
        let code = world.device_code(&active).await.expect(200);
        let code = code["user_code"].as_str().unwrap().to_owned();
        let app = &world.server.app;
        let purge = async || app.store.purge(world.clock().now(), &app.settings.janitor.purge).await.unwrap().machines;

        world.advance(DAY * 29);
        let present = [(uuid_of(&active), world.clock().now())];
        app.store.machines_touch(&present, chrono::TimeDelta::zero()).await.unwrap();
        assert_eq!(purge().await, 0);
        let bytes = app.store.held_bytes().await.unwrap();
        world.advance(DAY * 2);
        assert_eq!(purge().await, 1);
        world.activity(&idle, "").await.refused(401, "machine_unknown");
        assert_eq!(app.store.held_bytes().await.unwrap(), bytes / 2, "only its own held events are deleted");
        assert!(app.store.machine_facts(uuid_of(&attached)).await.unwrap().is_some(), "whose computer it is decides");
        assert_eq!(app.store.consent_rules(&idle.user_cuid.parse().unwrap()).await.unwrap(), []);

        // Its events stay in the log, and cannot be read with its id.
        let log = RecordScope { shown: recorders_of(&idle, part), ..RecordScope::default() };
        assert_eq!(app.upstream.proof(&log, recorded).await.unwrap().status, 200);
        let body = json!({ "user_cuid": idle.user_cuid, "machine_uuid": idle.uuid });
        world.post("/api/v1/machines", &Credential::None, &body).await.refused(409, "machine_already_registered");

        // The identity is free: the next computer is the first.
        let person = world.person("ada@example.com").await;
        world.device_approve(&person.cookie, &code).await.refused(410, "code_consumed");
        let code = world.device_code(&active).await.expect(200);
        world.device_approve(&person.cookie, code["user_code"].as_str().unwrap()).await.expect(200);
        let page = world.activity(person.cookie.clone(), "").await.expect(200);
        assert_eq!(page["events"], json!([]));
        // Detached computers are not among the forgotten.
        world.delete(&format!("/api/v1/machines/{}", active.uuid), &person.cookie).await.expect(200);
        world.advance(DAY * 31);
        assert_eq!(purge().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quota_of_a_sender_is_shared_between_nodes() {
    let Some(world) = World::on_postgres().await else { return };
    let world = with_budget(world, 3, 0).await;
    let node = world.beside().await;
    let machine = world.machine().await;
    let mut chain = Chain::new(&machine);
    node.event(&machine, &chain.next()).await.receipt();
    for _ in 0..2 {
        world.event(&machine, &chain.next()).await.receipt();
    }
    // A node without the counts of the other node accepts one more event, and reads the counts when it writes that event.
    eventually("both nodes refuse", async || {
        let responses = [world.event(&machine, &malformed(1)).await, node.event(&machine, &malformed(1)).await];
        responses.iter().all(|response| response.status == 424).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quota_of_an_account_is_shared_between_nodes() {
    let Some(world) = World::on_postgres().await else { return };
    let world = with_plans(world, 40_000).await;
    let node = world.beside().await;
    let person = world.person("ada@example.com").await;
    let (machine, second) = (world.attached_machine(&person).await, world.attached_machine(&person).await);
    let large = |chain: &mut Chain| chain.next_with(|event| event["payload"]["content"] = json!("x".repeat(15_000)));
    let (mut chain, mut other) = (Chain::new(&machine), Chain::new(&second));
    world.event(&machine, &large(&mut chain)).await.receipt();
    node.event(&second, &large(&mut other)).await.receipt();
    // A node without the counts of the other node accepts one more event, and reads the counts when it writes that event.
    eventually("both nodes refuse", async || {
        let padded = json!({ "padding": "x".repeat(15_000) });
        let responses = [world.event(&machine, &padded).await, node.event(&second, &padded).await];
        responses.iter().all(|response| response.status == 424).then_some(())
    })
    .await;
}

/// Sets the bytes of events a day of the plan FREE.
async fn with_plans(world: World, event_bytes_per_day: u64) -> World {
    world.restart_with(|settings| settings.plans.of_mut(Plan::Free).event_bytes_per_day = event_bytes_per_day).await
}

fn uuid_of(machine: &Machine) -> MachineUuid {
    machine.uuid.parse().unwrap()
}

fn recorders_of(machine: &Machine, part: LogPart) -> domain::recorder::Recorders {
    domain::recorder::Recorders::of_computer(uuid_of(machine), machine.user_cuid.parse().unwrap(), part)
}
