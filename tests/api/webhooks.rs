//! Webhooks (`docs/protocol/webhooks.md` and `docs/decisions/0033-notifications.md`).

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use harness::python::{self, Packages};
use reqwest::Method;
use serde_json::{Value, json};

use blackbox::browser::Browser;
use blackbox::client::{Credential, Response};
use blackbox::eventually;
use blackbox::receiver::{Received, Receiver, permit};
use blackbox::world::{Person, World};
use harness::event::Chain;
use harness::{on_each_database, on_sqlite};

const WEBHOOKS: &str = "/api/v1/webhooks";
const KINDS: [&str; 5] = ["event.held", "agent.revoked", "computer.detached", "consent.changed", "batch.done"];

/// The server with webhooks that may be on this machine.
async fn on(world: World) -> World {
    world.restart_with(permit).await
}

/// Adds an endpoint for all kinds; its path and its secret.
async fn add(world: &World, person: &Person, receiver: SocketAddr, path: &str) -> (String, String) {
    let body = json!({ "url": format!("http://{receiver}/{path}"), "kinds": KINDS });
    let made = world.post(WEBHOOKS, &person.cookie, &body).await.expect(201);
    let path = format!("{WEBHOOKS}/{}", made["id"].as_str().unwrap());
    (path, made["secret"].as_str().unwrap().to_owned())
}

async fn test(world: &World, person: &Person, webhook: &str) -> Response {
    world.post(&format!("{webhook}/test"), &person.cookie, &json!({})).await
}

async fn patch(world: &World, credential: &Credential, webhook: &str, body: Value) -> Response {
    world.send(world.request(Method::PATCH, webhook, credential).json(&body)).await
}

async fn rotate(world: &World, person: &Person, webhook: &str) -> Response {
    world.post(&format!("{webhook}/secret"), &person.cookie, &json!({})).await
}

/// The webhook as its owner sees it.
async fn shown(world: &World, person: &Person, webhook: &str) -> Value {
    let all = world.get(WEBHOOKS, &person.cookie).await.expect(200)["webhooks"].clone();
    all.as_array().unwrap().iter().find(|one| webhook.ends_with(one["id"].as_str().unwrap())).cloned().unwrap()
}

/// Waits until the newest delivery is as expected.
async fn delivery(world: &World, person: &Person, webhook: &str, is: impl Fn(&Value) -> bool) -> Value {
    eventually("the delivery", async || {
        let listed = world.get(&format!("{webhook}/deliveries"), &person.cookie).await.expect(200);
        Some(listed["deliveries"][0].clone()).filter(|one| one.is_object() && is(one))
    })
    .await
}

/// Verifies every request with each of these secrets, by the library of Standard Webhooks.
async fn verify(secrets: &[&str], requests: &[Received]) {
    let Some(python) = python::with(Packages::Webhooks) else { return };
    let requests: Vec<Value> = requests
        .iter()
        .map(|one| json!({ "id": one.id, "timestamp": one.timestamp, "signature": one.signature, "body": one.body }))
        .collect();
    let given = json!({ "secrets": secrets, "requests": requests }).to_string();
    let mut library = Command::new(python);
    library.args(["-c", include_str!("webhooks/verify.py")]).arg(given);
    let output = tokio::task::spawn_blocking(move || library.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let verified: usize = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(verified, secrets.len() * requests.len());
}

on_sqlite! {
    async fn a_held_event_is_that_of_its_sender_whichever_computer_it_names(world: World) {
        let world = on(world).await;
        let (receiver, address) = Receiver::start().await;
        let person = world.person("ada@example.com").await;
        add(&world, &person, address, "hers").await;
        let (compromised, innocent) = (world.attached_machine(&person).await, world.attached_machine(&person).await);
        world.event(&compromised, &Chain::new(&innocent).next()).await.held("identity_mismatch");
        let sent = receiver.wait("hers", 1).await[0].json();
        assert_eq!((&sent["type"], &sent["data"]["reason"]), (&json!("event.held"), &json!("identity_mismatch")));
        assert_eq!(sent["data"]["machine_uuid"], json!(compromised.uuid));
        // A session is no computer.
        world.event(person.cookie.clone(), &Chain::new(&world.machine().await).next()).await.held("identity_mismatch");
        let sent = receiver.wait("hers", 2).await;
        assert!(sent.iter().any(|one| one.json()["data"]["machine_uuid"].is_null()), "{sent:?}");
    }
}

on_each_database! {
    async fn each_kind_of_fact_is_sent_once_signed_and_without_content(world: World) {
        let world = on(world).await;
        let (receiver, address) = Receiver::start().await;
        let (person, stranger) = (world.person("ada@example.com").await, world.person("bob@example.com").await);
        let (_, secret) = add(&world, &person, address, "hers").await;
        add(&world, &stranger, address, "his").await;
        let machine = world.attached_machine(&person).await;
        let chain = Chain::new(&machine);
        let unknown = chain.peek_with(|event| event["event_type"] = json!("memory.dreamt"));
        world.event(&machine, &unknown).await.held("unknown_event_type");
        // The same event is already held.
        world.event(&machine, &unknown).await.held("unknown_event_type");
        let consent = json!({ "level": "off", "lane": "llm", "reason": "it is private" });
        world.post("/api/v1/consent", &person.cookie, &consent).await.expect(200);
        let agent = world.agent_of(&person).await;
        let code = world.device_code(&world.machine().await).await.expect(200);
        world.device_approve(&agent.token, code["user_code"].as_str().unwrap()).await.expect(200);
        world.delete(&format!("/api/v1/agents/{}", agent.id), &person.cookie).await.expect(200);
        world.delete(&format!("/api/v1/machines/{}", machine.uuid), &person.cookie).await.expect(200);
        let key = world.key(&person, json!({ "name": "key" })).await;
        world.notes(&key, &["a secret recipe"]).await;

        let sent = receiver.wait("hers", 6).await;
        verify(&[&secret], &sent).await;
        let of = |kind: &str| -> Vec<Value> {
            sent.iter().map(Received::json).filter(|body| body["type"] == kind).map(|body| body["data"].clone()).collect()
        };
        let held = of("event.held");
        assert!(held[0]["held_id"].as_str().is_some_and(|id| id.len() == 36), "{held:?}");
        assert_eq!(held, [json!({
            "held_id": held[0]["held_id"], "event_id": unknown["event_id"], "machine_uuid": machine.uuid,
            "reason": "unknown_event_type",
        })]);
        let changed = &of("consent.changed")[0];
        assert_eq!((&changed["level"], &changed["lane"], &changed["set_by"]), (&json!("off"), &json!("llm"), &json!("person")));
        assert_eq!(of("agent.revoked"), [json!({ "agent_id": agent.id, "reason": "owner" })]);
        let mut detached = of("computer.detached");
        detached.sort_by_key(|data| data["reason"].to_string());
        assert_eq!((&detached[0]["reason"], &detached[0]["agent_id"]), (&json!("agent_revoked"), &json!(agent.id)));
        assert_eq!(detached[1], json!({ "machine_uuid": machine.uuid, "reason": "owner" }));
        assert_eq!(of("batch.done")[0]["state"], "complete");
        for body in sent.iter().map(|one| &one.body) {
            assert!(!body.contains("private") && !body.contains("recipe"), "{body}");
            assert!(body.parse::<Value>().unwrap()["timestamp"].as_str().unwrap().ends_with('Z'), "{body}");
        }
        assert_eq!(receiver.at("hers").len(), 6);
        assert_eq!(receiver.at("his").len(), 0, "a notification reached a foreign account");
    }
}

on_sqlite! {
    async fn a_failed_delivery_is_tried_again_under_the_same_id(world: World) {
        let world = on(world).await;
        let (receiver, address) = Receiver::start().await;
        let person = world.person("ada@example.com").await;
        let (webhook, secret) = add(&world, &person, address, "soon").await;
        test(&world, &person, &webhook).await.expect(200);
        let failed = delivery(&world, &person, &webhook, |one| one["tries"] == 1 && one["status"] == 500).await;
        assert_eq!((&failed["state"], &failed["error"]), (&json!("waiting"), &json!("it answered with status 500")));
        assert!(shown(&world, &person, &webhook).await["failing_since"].is_string());
        verify(&[&secret], &receiver.at("soon")).await;
        world.advance(Duration::from_secs(7));
        let delivery_record = delivery(&world, &person, &webhook, |one| one["state"] == "delivered").await;
        assert_eq!((&delivery_record["tries"], &delivery_record["status"], &delivery_record["error"], &delivery_record["next_try_at"]), (&json!(2), &json!(204), &Value::Null, &Value::Null));
        assert_eq!(shown(&world, &person, &webhook).await["failing_since"], Value::Null);
        let sent = receiver.at("soon");
        assert_eq!((sent.len(), &sent[0].id, &sent[0].body), (2, &sent[1].id, &sent[1].body));
        assert_eq!((sent[0].id.as_str(), &sent[0].json()["type"]), (delivery_record["id"].as_str().unwrap(), &json!("webhook.test")));

        // An endpoint may request a longer delay.
        let (busy, _) = add(&world, &person, address, "busy").await;
        test(&world, &person, &busy).await.expect(200);
        let waiting = delivery(&world, &person, &busy, |one| one["tries"] == 1 && one["status"] == 503).await;
        let moment = |name: &str| waiting[name].as_str().unwrap().parse::<domain::Timestamp>().unwrap();
        assert!((moment("next_try_at") - moment("last_try_at")).num_seconds() >= 3600, "{waiting}");
        world.advance(Duration::from_secs(3601));
        delivery(&world, &person, &busy, |one| one["state"] == "delivered").await;
    }

    async fn redirects_are_not_followed_and_responses_are_not_read(world: World) {
        let world = on(world).await;
        let (receiver, address) = Receiver::start().await;
        let person = world.person("ada@example.com").await;
        let (moved, _) = add(&world, &person, address, "moved").await;
        test(&world, &person, &moved).await.expect(200);
        let failed = delivery(&world, &person, &moved, |one| one["status"] == 307).await;
        assert!(failed["error"].as_str().unwrap().contains("not followed"), "{failed}");
        assert_eq!((receiver.at("moved").len(), receiver.at("target").len()), (1, 0));
        let (endless, _) = add(&world, &person, address, "endless").await;
        test(&world, &person, &endless).await.expect(200);
        delivery(&world, &person, &endless, |one| one["state"] == "delivered").await;
    }

    async fn a_silent_endpoint_times_out_and_delays_no_other(world: World) {
        let world = on(world).await;
        let (receiver, address) = Receiver::start().await;
        let person = world.person("ada@example.com").await;
        let (silent, _) = add(&world, &person, address, "silent").await;
        let (quick, _) = add(&world, &person, address, "quick").await;
        test(&world, &person, &silent).await.expect(200);
        test(&world, &person, &silent).await.expect(200);
        receiver.wait("silent", 1).await;
        for _ in 0..3 {
            test(&world, &person, &quick).await.expect(200);
        }
        assert_eq!(receiver.wait("quick", 3).await.len(), 3);
        // Deliveries are sent one at a time; the first is in progress.
        assert_eq!(receiver.at("silent").len(), 1);
        let world = world.restart_with(|settings| settings.webhooks.timeout = Duration::from_millis(200)).await;
        // The lease of the request that ended with its server.
        world.advance(Duration::from_mins(1));
        let failed = delivery(&world, &person, &silent, |one| one["error"].is_string()).await;
        assert_eq!((&failed["status"], &failed["error"]), (&Value::Null, &json!("the web server took too long")));
    }

    async fn an_endpoint_that_is_gone_or_fails_for_days_is_disabled(world: World) {
        let world = on(world).await;
        let (receiver, address) = Receiver::start().await;
        let person = world.person("ada@example.com").await;
        let (gone, _) = add(&world, &person, address, "gone").await;
        test(&world, &person, &gone).await.expect(200);
        let ended = delivery(&world, &person, &gone, |one| one["status"] == 410).await;
        assert_eq!(ended["state"], "failed");
        let endpoint = shown(&world, &person, &gone).await;
        assert_eq!((&endpoint["enabled"], &endpoint["disabled_reason"]), (&json!(false), &json!("gone")));
        test(&world, &person, &gone).await.refused(409, "webhook_disabled");

        let (broken, _) = add(&world, &person, address, "broken").await;
        test(&world, &person, &broken).await.expect(200);
        let first = delivery(&world, &person, &broken, |one| one["tries"] == 1 && one["status"] == 500).await;
        world.advance(Duration::from_hours(60));
        // An attempt is counted at its start, and evaluated with the time of its end.
        let has_ended = |one: &Value| one["tries"] == 2 && one["next_try_at"] != first["next_try_at"];
        delivery(&world, &person, &broken, has_ended).await;
        world.advance(Duration::from_hours(61));
        let disabled = eventually("it is disabled", async || {
            let endpoint = shown(&world, &person, &broken).await;
            (endpoint["enabled"] == false).then_some(endpoint)
        })
        .await;
        assert_eq!(disabled["disabled_reason"], "failing");
        assert_eq!(receiver.at("broken").len(), 3);
        // Its owner enables it again, after a new sign-in.
        let person = world.person("ada@example.com").await;
        let enabled = patch(&world, &person.cookie, &broken, json!({ "enabled": true })).await.expect(200);
        assert_eq!((&enabled["enabled"], &enabled["failing_since"]), (&json!(true), &Value::Null));
        test(&world, &person, &broken).await.expect(200);
        receiver.wait("broken", 4).await;
    }

    async fn a_replaced_secret_signs_too_for_a_time(world: World) {
        let world = on(world).await;
        let (receiver, address) = Receiver::start().await;
        let person = world.person("ada@example.com").await;
        let (webhook, old) = add(&world, &person, address, "both").await;
        let rotated = rotate(&world, &person, &webhook).await.expect(200);
        let new = rotated["secret"].as_str().unwrap().to_owned();
        assert_ne!(old, new);
        assert!(rotated["old_secret_until"].is_string());
        test(&world, &person, &webhook).await.expect(200);
        let sent = receiver.wait("both", 1).await;
        assert_eq!(sent[0].signature.split(' ').count(), 2);
        verify(&[&old, &new], &sent).await;
        world.advance(Duration::from_hours(25));
        test(&world, &person, &webhook).await.expect(200);
        let sent = receiver.wait("both", 2).await;
        assert_eq!(sent[1].signature.split(' ').count(), 1);
    }

    async fn an_account_changes_only_its_own_endpoints(world: World) {
        let world = on(world).await;
        let (_receiver, address) = Receiver::start().await;
        let (person, stranger) = (world.person("ada@example.com").await, world.person("bob@example.com").await);
        let agent = world.agent_of(&person).await;
        let (webhook, secret) = add(&world, &person, address, "x").await;
        assert!(secret.starts_with("whsec_"));
        let listed = world.get(WEBHOOKS, &agent.token).await;
        assert_eq!(listed.expect(200)["webhooks"].as_array().unwrap().len(), 1);
        assert!(!String::from_utf8_lossy(&listed.body).contains("whsec_"), "a secret is shown once");
        // An agent can read webhooks, but not create or change them, since they would outlive the agent.
        let body = json!({ "url": format!("http://{address}/x"), "kinds": ["batch.done"] });
        world.post(WEBHOOKS, &agent.token, &body).await.refused(401, "unauthorized");
        patch(&world, &agent.token, &webhook, json!({})).await.refused(401, "unauthorized");
        assert_eq!(world.get(WEBHOOKS, &stranger.cookie).await.expect(200)["webhooks"], json!([]));
        patch(&world, &stranger.cookie, &webhook, json!({ "enabled": false })).await.refused(404, "not_found");
        test(&world, &stranger, &webhook).await.refused(404, "not_found");
        rotate(&world, &stranger, &webhook).await.refused(404, "not_found");
        world.get(&format!("{webhook}/deliveries"), &stranger.cookie).await.refused(404, "not_found");
        world.delete(&webhook, &stranger.cookie).await.refused(404, "not_found");
        world.get(&format!("{WEBHOOKS}/nonsense/deliveries"), &person.cookie).await.refused(404, "not_found");

        let changed = json!({ "url": format!("http://{address}/y"), "kinds": ["batch.done", "event.held"], "description": " pager ", "enabled": false });
        let endpoint = patch(&world, &person.cookie, &webhook, changed).await.expect(200);
        assert_eq!((&endpoint["kinds"], &endpoint["description"]), (&json!(["event.held", "batch.done"]), &json!("pager")));
        assert_eq!((&endpoint["enabled"], &endpoint["disabled_reason"]), (&json!(false), &json!("owner")));
        let endpoint = patch(&world, &person.cookie, &webhook, json!({})).await.expect(200);
        assert_eq!(endpoint["url"], format!("http://{address}/y"));
        world.advance(Duration::from_mins(16));
        for refused in [
            world.post(WEBHOOKS, &person.cookie, &body).await,
            patch(&world, &person.cookie, &webhook, json!({ "enabled": true })).await,
            rotate(&world, &person, &webhook).await,
        ] {
            assert_eq!(refused.refused(401, "unauthorized")["reason"], "sign_in_again");
        }
        assert_eq!(world.delete(&webhook, &person.cookie).await.expect(200), json!({ "ok": true }));
        world.delete(&webhook, &person.cookie).await.refused(404, "not_found");
    }

    async fn endpoints_are_limited_in_number_and_place(world: World) {
        let world = on(world).await;
        let world = world
            .restart_with(|settings| {
                settings.webhooks.allow_http = false;
                settings.webhooks.allow_private = vec!["127.0.0.2/32".parse().unwrap()];
                settings.webhooks.ports = vec![443];
                settings.webhooks.per_account_max = 2;
            })
            .await;
        let person = world.person("ada@example.com").await;
        let make = async |url: &str, kinds: Value| world.post(WEBHOOKS, &person.cookie, &json!({ "url": url, "kinds": kinds })).await;
        for (url, rule) in [
            ("http://example.com/", "https"),
            ("https://example.com:22/", "port"),
            ("https://127.0.0.1/", "private"),
            ("https://10.0.0.1/", "private"),
            ("https://[::1]/", "private"),
            ("https://169.254.169.254/", "private"),
            ("https://2130706433/", "private"),
            ("https://user@example.com/", "password"),
            ("ftp://example.com/", "http"),
            ("nonsense", "address"),
        ] {
            let refused = make(url, json!(["event.held"])).await.refused(400, "invalid_request");
            let issue = &refused["issues"][0];
            assert_eq!(issue["path"], "url", "{url}");
            assert!(issue["message"].as_str().unwrap().contains(rule), "{url}: {issue}");
        }
        for kinds in [json!([]), json!(["webhook.test"]), json!("event.held"), json!(null)] {
            make("https://example.com/", kinds).await.refused(400, "invalid_request");
        }
        let long = json!({ "url": "https://example.com/", "kinds": ["event.held"], "description": "x".repeat(201) });
        world.post(WEBHOOKS, &person.cookie, &long).await.refused(400, "invalid_request");
        make("https://127.0.0.2/", json!(["event.held"])).await.expect(201);
        make("https://example.com/", json!(["event.held"])).await.expect(201);
        make("https://example.com/", json!(["event.held"])).await.refused(409, "too_many_webhooks");
    }

    async fn a_name_of_a_private_address_is_refused_when_it_is_resolved(world: World) {
        let world = on(world).await;
        let (receiver, address) = Receiver::start().await;
        let person = world.person("ada@example.com").await;
        let body = json!({ "url": format!("http://localhost:{}/x", address.port()), "kinds": ["event.held"] });
        let made = world.post(WEBHOOKS, &person.cookie, &body).await.expect(201);
        let webhook = format!("{WEBHOOKS}/{}", made["id"].as_str().unwrap());
        let world = world.restart_with(|settings| settings.webhooks.allow_private = Vec::new()).await;
        test(&world, &person, &webhook).await.expect(200);
        let failed = delivery(&world, &person, &webhook, |one| one["error"].is_string()).await;
        assert_eq!((&failed["status"], receiver.at("x").len()), (&Value::Null, 0));
        assert!(failed["error"].as_str().unwrap().contains("network that notifications are not sent to"), "{failed}");
    }

    async fn webhooks_are_off_by_default(world: World) {
        let person = world.person("ada@example.com").await;
        world.get(WEBHOOKS, &person.cookie).await.refused(404, "not_found");
        let body = json!({ "url": "https://example.com/", "kinds": ["event.held"] });
        world.post(WEBHOOKS, &person.cookie, &body).await.refused(404, "not_found");
        let browser = Browser::of(&world, &person);
        assert!(!browser.get("/account/access").await.page(200).contains("Webhooks"));
        browser.get("/account/webhooks").await.page(404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_send_each_notification_once() {
    let Some(world) = World::on_postgres().await else { return };
    let world = on(world).await;
    let second = world.beside().await;
    let (receiver, address) = Receiver::start().await;
    let person = world.person("ada@example.com").await;
    let mut expected = Vec::new();
    for endpoint in 0..4 {
        let path = format!("endpoint-{endpoint}");
        let (webhook, _) = add(&world, &person, address, &path).await;
        for round in 0..8 {
            let node = if round % 2 == 0 { &world } else { &second };
            test(node, &person, &webhook).await.expect(200);
        }
        expected.push(path);
    }
    for path in &expected {
        receiver.wait(path, 8).await;
    }
    for path in &expected {
        let mut ids: Vec<String> = receiver.at(path).into_iter().map(|one| one.id).collect();
        assert_eq!(ids.len(), 8, "{path}");
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 8, "{path}");
    }
}
