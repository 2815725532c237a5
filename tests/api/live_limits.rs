//! Limits, quotas and deadlines that a reload changes: they refuse new work from then on, and end nothing.

use std::time::Duration;

use actors::ActorKind;
use domain::usage::{Allowance, Plan};
use knowledge::embed::EmbeddingProvider;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use blackbox::browser::Browser;
use blackbox::client::{Credential, Response};
use blackbox::eventually;
use blackbox::raw::{connect, get, response, send};
use blackbox::receiver::{Receiver, permit};
use blackbox::site::Site;
use blackbox::world::World;
use harness::event::Chain;

use crate::knowledge::closed_network;
use crate::knowledge::library::{imported, patched};
use crate::live::{child, reload};

const HERE: [u8; 4] = [127, 0, 0, 1];

/// More than a test waits for.
const TIME_LIMIT: Duration = Duration::from_secs(20);

#[track_caller]
fn spent(response: &Response) {
    assert_eq!(response.refused(424, "temporarily_unavailable")["reason"], "quota_exceeded");
}

fn free(settings: &mut app::config::Settings, change: impl FnOnce(&mut Allowance)) {
    change(settings.plans.of_mut(Plan::Free));
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_quotas_of_senders_count_what_the_day_has_used() {
    let world = World::on_sqlite().await;
    let person = world.person("ada@example.com").await;
    let (lone, attached) = (world.machine().await, world.attached_machine(&person).await);
    let (mut of_lone, mut of_attached) = (Chain::new(&lone), Chain::new(&attached));
    world.event(&lone, &of_lone.next()).await.receipt();
    world.event(&attached, &of_attached.next()).await.receipt();
    let next = [of_lone.next(), of_attached.next()];
    let reloaded = reload(&world, |settings| {
        settings.events.unattached.events_per_day = 1;
        free(settings, |plan| plan.event_bytes_per_day = 1);
    })
    .await;
    assert_eq!((reloaded.applied.len(), reloaded.restart_needed.len()), (2, 0), "{reloaded:?}");
    spent(&world.event(&lone, &next[0]).await);
    spent(&world.event(&attached, &next[1]).await);
    reload(&world, |settings| {
        settings.events.unattached.events_per_day = 2;
        free(settings, |plan| plan.event_bytes_per_day = 0);
    })
    .await;
    world.event(&lone, &next[0]).await.receipt();
    world.event(&attached, &next[1]).await.receipt();
    spent(&world.event(&lone, &of_lone.next()).await);

    let (_, agent) = world.unclaimed().await;
    world.event(agent.clone(), &json!({ "n": 1 })).await.held("unattributed");
    reload(&world, |settings| settings.events.held.registration_bytes_per_day = 1).await;
    let refused = world.event(agent, &json!({ "n": 2 })).await;
    assert_eq!(refused.refused(424, "temporarily_unavailable")["reason"], "held_quota_exceeded");
    reload(&world, |settings| settings.events.body_bytes_max = 10).await;
    world.event(&attached, &of_attached.next()).await.held("malformed_envelope");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_plan_is_on_the_next_usage_bar() {
    let world = World::on_sqlite().await;
    let person = world.person("ada@example.com").await;
    let bar = async || world.get("/api/v1/usage/bar", &person.cookie).await.expect(200);
    let before = bar().await;
    reload(&world, |settings| {
        free(settings, |plan| (plan.window_days, plan.memory_bytes) = (1, 7));
    })
    .await;
    let after = bar().await;
    assert_ne!(before["memory"]["reset_at"], after["memory"]["reset_at"]);
    assert_eq!(after["limits"]["memory_bytes"]["limit"], 7);
}

/// The response to a head that is longer than hyper's first buffer.
async fn long_head(world: &World) -> u16 {
    let head = format!("GET /nothing HTTP/1.1\r\nHost: localhost\r\nX-Long: {}\r\n\r\n", "x".repeat(30_000));
    send(HERE, world.server.address, &head).await.0
}

/// Waits until the server ends this connection.
async fn ended(stream: &mut TcpStream) {
    let _ = timeout(TIME_LIMIT, stream.read_to_end(&mut Vec::new())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_limits_of_http_hold_for_new_connections_and_end_none() {
    let world = World::on_sqlite().await;
    let to = world.server.address;
    let unread = "POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
    let mut old = connect(HERE, to).await;
    old.write_all(unread.as_bytes()).await.unwrap();
    let (status, text) = response(&mut old).await;
    assert!(status == 404 && !text.contains("connection: close"), "{text}");
    assert_eq!(long_head(&world).await, 404);
    let reloaded = reload(&world, |settings| {
        settings.http.head_deadline = Duration::from_millis(500);
        settings.http.idle_deadline = Duration::from_millis(50);
        settings.http.head_bytes_max = 10_000;
        settings.http.unread_bytes_max = 0;
    })
    .await;
    assert_eq!((reloaded.applied.len(), reloaded.restart_needed.len()), (4, 0), "{reloaded:?}");
    assert_eq!(long_head(&world).await, 431);
    let (status, text) = send(HERE, to, unread).await;
    assert!(status == 404 && text.contains("connection: close"), "{text}");
    let (mut silent, mut idle) = (connect(HERE, to).await, connect(HERE, to).await);
    idle.write_all(get("/nothing").as_bytes()).await.unwrap();
    assert_eq!(response(&mut idle).await.0, 404);
    ended(&mut idle).await;
    ended(&mut silent).await;
    old.write_all(get("/nothing").as_bytes()).await.unwrap();
    assert_eq!(response(&mut old).await.0, 404, "it has the deadlines of its start");

    reload(&world, |settings| settings.http.connections_per_address_max = 1).await;
    assert_eq!(response(&mut connect(HERE, to).await).await.0, 424);
    old.write_all(get("/nothing").as_bytes()).await.unwrap();
    assert_eq!(response(&mut old).await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_drain_deadline_bounds_the_next_stop() {
    const NEVER: Duration = Duration::from_mins(10);
    let world = World::with(|settings| {
        settings.shutdown.drain_deadline = NEVER;
        (settings.http.body_deadline, settings.http.body_rate_after) = (NEVER, NEVER);
    })
    .await;
    let mut waiting = connect(HERE, world.server.address).await;
    let head = "POST /api/v1/mcp HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    waiting.write_all(head.as_bytes()).await.unwrap();
    // The body is awaited: the request is in progress until the server gives it up.
    assert_ne!(waiting.read(&mut [0; 25]).await.unwrap(), 0);
    reload(&world, |settings| settings.shutdown.drain_deadline = Duration::from_secs(1)).await;
    let world = timeout(TIME_LIMIT, world.restart()).await.unwrap();
    world.get("/nothing", &Credential::None).await.refused(404, "not_found");
}

async fn without_embeddings() -> World {
    World::with(|settings| {
        closed_network(settings);
        settings.knowledge.embedding.provider = EmbeddingProvider::None;
    })
    .await
}

fn notes(contents: &[&str]) -> Value {
    json!({ "contents": contents.iter().map(|content| json!({ "content": content })).collect::<Vec<_>>() })
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_limits_of_batches_refuse_the_next_one() {
    let world = without_embeddings().await;
    let (_, key) = world.librarian("ada@example.com").await;
    world.add(&key, notes(&["First", "Second"])).await.whole().await;
    let long = "x".repeat(101);
    reload(&world, |settings| {
        let batch = &mut settings.knowledge.batch;
        (batch.items_max, batch.note_bytes_max, batch.spaces_max) = (1, 100, 0);
    })
    .await;
    world.add_refused(&key, notes(&["Third", "Fourth"])).await.refused(400, "invalid_request");
    world.add_refused(&key, notes(&[&long])).await.refused(400, "invalid_request");
    let space = world.space(&key, "One", false).await;
    let into_space = json!({ "contents": [{ "content": "Third" }], "spaces": [space] });
    world.add_refused(&key, into_space).await.refused(400, "invalid_request");
    let document = world.get("/openapi.json", &Credential::None).await.expect(200);
    assert_eq!(document["components"]["schemas"]["BatchRequest"]["properties"]["urls"]["maxItems"], 1);
    reload(&world, |settings| settings.knowledge.batch.body_bytes_max = 50).await;
    world.add_refused(&key, notes(&[&long])).await.refused(413, "payload_too_large");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_number_of_batches_and_streams_refuses_the_next_one() {
    let (_site, address) = Site::start().await;
    let world = World::with(|settings| {
        closed_network(settings);
        settings.knowledge.fetch.ports = vec![address.port()];
        settings.knowledge.embedding.provider = EmbeddingProvider::None;
    })
    .await;
    let (_, key) = world.librarian("ada@example.com").await;
    let silent = json!({ "urls": [format!("http://{address}/silent")] });
    let first = world.add(&key, silent.clone()).await;
    reload(&world, |settings| settings.knowledge.batch.running_max = 1).await;
    world.add_refused(&key, silent.clone()).await.refused(429, "rate_limited");
    reload(&world, |settings| {
        settings.knowledge.batch.running_max = 2;
        settings.knowledge.batch.streams_per_account_max = 1;
    })
    .await;
    world.add_refused(&key, silent.clone()).await.refused(429, "rate_limited");
    reload(&world, |settings| {
        settings.knowledge.batch.streams_per_account_max = 2;
        settings.knowledge.batch.streams_max = 1;
    })
    .await;
    world.add_refused(&key, silent.clone()).await.refused(503, "temporarily_unavailable");
    reload(&world, |settings| settings.knowledge.batch.streams_max = 2).await;
    let second = world.add(&key, silent).await;
    assert_ne!(first.batch, second.batch);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_a_request_is_kept_for_the_changed_time() {
    let world = without_embeddings().await;
    let (_, key) = world.librarian("ada@example.com").await;
    let add = async || {
        let request = world.request(Method::POST, "/v1/batch-add", &key).header("idempotency-key", "k-1");
        world.send(request.json(&notes(&["First"]))).await.header("x-batch-id").unwrap().to_owned()
    };
    let first = add().await;
    world.advance(Duration::from_mins(1));
    assert_eq!(add().await, first);
    reload(&world, |settings| settings.knowledge.batch.idempotency_kept = Duration::from_secs(1)).await;
    assert_ne!(add().await, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_limits_of_memories_refuse_the_next_one() {
    let world = without_embeddings().await;
    let (_, key) = world.librarian("ada@example.com").await;
    let ids = world.notes(&key, &["First", "Second"]).await;
    let added = async |content: &str| world.add(&key, notes(&[content])).await.whole().await[1].clone();
    reload(&world, |settings| settings.knowledge.memories_per_account_max = 2).await;
    assert_eq!(added("Third").await["error"], "quota_exceeded");
    reload(&world, |settings| {
        settings.knowledge.memories_per_account_max = 9;
        free(settings, |plan| plan.memory_bytes = 10);
    })
    .await;
    assert_eq!(added("Third").await["error"], "quota_exceeded");
    reload(&world, |settings| free(settings, |plan| plan.memory_bytes = 0)).await;
    assert_eq!(added("Third").await["type"], "success");

    let tags = json!({ "tags": ["one", "two"] });
    patched(&world, &key, &ids[0], tags.clone()).await.expect(200);
    reload(&world, |settings| {
        settings.knowledge.tags_per_memory_max = 1;
        settings.knowledge.import.lines_max = 1;
    })
    .await;
    patched(&world, &key, &ids[0], tags).await.refused(400, "invalid_request");
    imported(&world, &key, "{}\n{}").await.refused(400, "invalid_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_numbers_of_webhooks_hold_for_the_next_delivery() {
    let world = World::with(permit).await;
    let (receiver, address) = Receiver::start().await;
    let person = world.person("ada@example.com").await;
    let endpoint = |path: &str| json!({ "url": format!("http://{address}/{path}"), "kinds": ["event.held"] });
    let add = async |path: &str| {
        let made = world.post("/api/v1/webhooks", &person.cookie, &endpoint(path)).await.expect(201);
        format!("/api/v1/webhooks/{}", made["id"].as_str().unwrap())
    };
    let test = async |webhook: &str| world.post(&format!("{webhook}/test"), &person.cookie, &json!({})).await;
    let delivery = async |webhook: &str, is: &dyn Fn(&Value) -> bool| {
        eventually("the delivery", async || {
            let listed = world.get(&format!("{webhook}/deliveries"), &person.cookie).await.expect(200);
            Some(listed["deliveries"][0].clone()).filter(|one| one.is_object() && is(one))
        })
        .await
    };
    let (silent, broken, both) = (add("silent").await, add("broken").await, add("both").await);
    reload(&world, |settings| {
        let webhooks = &mut settings.webhooks;
        webhooks.per_account_max = 3;
        (webhooks.timeout, webhooks.give_up_after) = (Duration::from_millis(200), Duration::ZERO);
        (webhooks.old_secret_kept, webhooks.disable_after) = (Duration::ZERO, Duration::from_hours(1));
    })
    .await;
    let more = world.post("/api/v1/webhooks", &person.cookie, &endpoint("more")).await;
    more.refused(409, "too_many_webhooks");
    test(&silent).await.expect(200);
    delivery(&silent, &|one| one["error"] == "the web server took too long").await;
    test(&broken).await.expect(200);
    let ended = delivery(&broken, &|one| one["status"] == 500 && one["state"] == "failed").await;
    assert_eq!(ended["tries"], 1, "given up after the first try: {ended}");
    world.post(&format!("{both}/secret"), &person.cookie, &json!({})).await.expect(200);
    test(&both).await.expect(200);
    let signature = receiver.wait("both", 1).await[0].signature.clone();
    assert_eq!(signature.split(' ').count(), 1, "the replaced secret signs no more");
    reload(&world, |settings| settings.webhooks.disable_after = Duration::ZERO).await;
    test(&broken).await.expect(200);
    eventually("it is disabled", async || {
        let listed = world.get("/api/v1/webhooks", &person.cookie).await.expect(200);
        let all = listed["webhooks"].as_array().unwrap();
        all.iter().any(|one| broken.ends_with(one["id"].as_str().unwrap()) && one["enabled"] == false).then_some(())
    })
    .await;

    reload(&world, |settings| settings.webhooks.look_every = Duration::from_hours(1)).await;
    let next = async || child(&world, ActorKind::Webhook).await.pass.unwrap().next_in_ms;
    eventually("its next pass is in an hour", async || (next().await > 3_000_000).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_numbers_of_feeds_hold_for_the_next_reader_and_the_next_pass() {
    let world = World::with(|settings| {
        settings.feeds.enabled = true;
        settings.janitor.every = Duration::from_millis(50);
        settings.limits.link_reads_per_minute = 0;
    })
    .await;
    let person = world.person("ada@example.com").await;
    world.attached_machine(&person).await;
    let page = Browser::of(&world, &person).submit("/account/feed", &[("kind.consent.changed", "1")]).await;
    let prefix = format!("{}/feeds/", world.server.app.urls.base);
    let link = page.page(200).split_once(&prefix).unwrap().1.split('<').next().unwrap().to_owned();
    for level in ["off", "full"] {
        let consent = json!({ "level": level, "lane": "llm", "reason": "it is private" });
        world.post("/api/v1/consent", &person.cookie, &consent).await.expect(200);
    }
    let entries = async || {
        let feed = world.get(&format!("/feeds/{link}"), &Credential::None).await;
        assert_eq!(feed.status, 200);
        String::from_utf8_lossy(&feed.body).matches("<entry>").count()
    };
    assert_eq!(entries().await, 2);
    reload(&world, |settings| settings.feeds.entries = 1).await;
    assert_eq!(entries().await, 1);
    world.advance(Duration::from_hours(1));
    assert_eq!(entries().await, 1);
    reload(&world, |settings| settings.feeds.kept = Duration::from_mins(1)).await;
    eventually("they are removed", async || (entries().await == 0).then_some(())).await;
}
