//! Limited resources: event streams, and large bodies in memory.

use std::time::Duration;

use domain::Digest;
use domain::memory::MemoryType;
use domain::usage::ByPlan;
use futures_util::FutureExt;
use futures_util::future::select_all;
use knowledge::embed::EmbeddingProvider;
use serde_json::{Value, json};
use store::memory::{ChunkPut, MemoryPut, MemoryQuota};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::closed_network;
use blackbox::client::Credential;
use blackbox::eventually;
use blackbox::site::Site;
use blackbox::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_without_a_free_stream_is_refused_before_it_exists() {
    let (_, address) = Site::start().await;
    let world = World::with(|settings| {
        closed_network(settings);
        settings.knowledge.fetch.ports = vec![address.port()];
        settings.knowledge.batch.streams_max = 1;
    })
    .await;
    let (person, key) = world.librarian("ada@example.com").await;
    let listening = world.add(&key, json!({ "urls": [format!("http://{address}/silent")] })).await;
    let note = json!({ "contents": [{ "content": "Nobody hears of this" }] });
    let refused = world.add_refused(&key, note.clone()).await;
    assert_eq!(refused.refused(503, "temporarily_unavailable")["reason"], "too_many_streams");
    let joining = world.get(&format!("/v1/batch-add/{}", listening.batch), &key).await;
    assert_eq!(joining.refused(503, "temporarily_unavailable")["reason"], "too_many_streams");
    let batches = world.server.app.store.batches_of_account(&person.account, 10).await.unwrap();
    assert_eq!(batches.len(), 1, "a refused batch was stored: {batches:?}");
    assert_eq!(world.found(&key, json!({ "query": "nobody hears" })).await, [""; 0]);
    drop(listening);
    let added = eventually("the place is free again", async || {
        let request = world.request(reqwest::Method::POST, "/v1/batch-add", &key).json(&note);
        let response = request.send().await.unwrap();
        (response.status() == 200).then_some(response)
    });
    blackbox::stream::Stream::open(added.await).await.whole().await;
}

/// A server that checks pages and streams often, and the address of a page that never responds.
async fn watchful(change: impl FnOnce(&mut app::config::Settings)) -> (World, String) {
    let (_, address) = Site::start().await;
    let world = World::with(|settings| {
        closed_network(settings);
        settings.knowledge.fetch.ports = vec![address.port()];
        settings.knowledge.batch.heartbeat = Duration::from_millis(100);
        change(settings);
    });
    (world.await, format!("http://{address}/gated"))
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_per_account_are_limited_and_leave_room_for_others() {
    let (world, url) = watchful(|settings| {
        settings.knowledge.batch.streams_max = 3;
        settings.knowledge.batch.streams_per_account_max = 2;
    })
    .await;
    let (ada, key) = world.librarian("ada@example.com").await;
    let (_, other) = world.librarian("bob@example.com").await;
    let first = world.add(&key, json!({ "urls": [url] })).await;
    let second = world.rejoin(&key, &first.batch, None).await;
    let join = format!("/v1/batch-add/{}", first.batch);
    for refused in [world.get(&join, &key).await, world.add_refused(&key, json!({ "urls": [url] })).await] {
        refused.refused(429, "rate_limited");
        assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    }
    // Another key and the pages are the same account.
    let second_key = world.key(&ada, json!({ "name": "another" })).await;
    world.get(&join, &second_key).await.refused(429, "rate_limited");
    let page = format!("/knowledge/batches/{}/stream", first.batch);
    for page in [&page, "/account/data/export", "/account/activity/export"] {
        assert_eq!(world.get(page, &ada.cookie).await.status, 429, "{page}");
    }
    let of_bob = world.add(&other, json!({ "urls": [url] })).await;
    let refused = world.add_refused(&other, json!({ "urls": [url] })).await;
    assert_eq!(refused.refused(503, "temporarily_unavailable")["reason"], "too_many_streams");
    drop((first, second));
    let free = async || {
        let response = world.request(reqwest::Method::GET, &join, &key).send().await.unwrap();
        (response.status() == 200).then_some(())
    };
    eventually("the places are free again", free).await;
    drop(of_bob);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_its_api_key_and_its_batch_continues() {
    let (world, url) = watchful(|_| {}).await;
    let (person, kept) = world.librarian("ada@example.com").await;
    let revoked = world.post("/api/v1/keys", &person.cookie, &json!({ "name": "revoked" })).await.expect(201);
    let soon = world.clock().now() + chrono::TimeDelta::hours(1);
    let expired = world.key(&person, json!({ "name": "expired", "expires_at": soon })).await;
    let listening = world.add(&kept, json!({ "urls": [url] })).await;
    let key = Credential::Bearer(revoked["key"].as_str().unwrap().to_owned());
    let mut streams = Vec::new();
    for key in [&key, &expired] {
        let mut stream = world.rejoin(key, &listening.batch, None).await;
        assert_eq!(stream.next().await.unwrap()["processed"], 0);
        streams.push(stream);
    }
    let ended = json!({ "type": "error", "fatal": true, "error": "unauthorized" });
    let is_end = |messages: Vec<Value>| {
        let [last] = &messages[..] else { panic!("{messages:?}") };
        ended.as_object().unwrap().iter().all(|(name, value)| last[name] == *value) && last["message"].is_string()
    };
    let of_expired = streams.pop().unwrap();
    world.delete(&format!("/api/v1/keys/{}", revoked["id"].as_str().unwrap()), &person.cookie).await.expect(200);
    for mut stream in streams {
        assert!(is_end(stream.rest().await));
    }
    world.advance(Duration::from_hours(2));
    for mut stream in [of_expired] {
        assert!(is_end(stream.rest().await));
    }
    // The batch continues, and a stream with a valid key stays open.
    let mut again = world.rejoin(&kept, &listening.batch, None).await;
    assert_eq!(again.next().await.unwrap()["processed"], 0);
    let batch = world.server.app.store.batches_of_account(&person.account, 10).await.unwrap().remove(0);
    assert!(batch.is_running);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_page_is_notified_of_a_sign_out() {
    let (world, url) = watchful(|_| {}).await;
    let (person, key) = world.librarian("ada@example.com").await;
    let listening = world.add(&key, json!({ "urls": [url] })).await;
    let page = format!("/knowledge/batches/{}/stream?after=0", listening.batch);
    let response = world.request(reqwest::Method::GET, &page, &person.cookie).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let elsewhere = world.person("ada@example.com").await;
    let sessions = world.get("/api/v1/sessions", &elsewhere.cookie).await.expect(200)["sessions"].clone();
    let other = sessions.as_array().unwrap().iter().find(|session| session["current"] == false).unwrap();
    let path = format!("/api/v1/sessions/{}", other["id"].as_str().unwrap());
    world.delete(&path, &elsewhere.cookie).await.expect(200);
    let messages = response.text().await.unwrap();
    let last = messages.trim_end().rsplit('\n').next().unwrap().strip_prefix("data: ").unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!((&last["parts"], &last["done"]), (&json!({}), &json!(true)));
    assert!(last["status"].as_str().unwrap().starts_with("You are signed out"), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_whose_key_is_revoked_ends_incomplete() {
    let (world, _) = watchful(|_| {}).await;
    let (person, kept) = world.librarian("ada@example.com").await;
    // Far more than the buffers of a connection hold, in many pages.
    let (content, now) = ("w".repeat(60_000), world.clock().now());
    for nth in 0..160_u32 {
        let put = MemoryPut {
            id: world.rng().uuid_v7(now).into(),
            account: &person.account,
            kind: MemoryType::Note,
            title: "A note",
            url: None,
            content: &content,
            dedupe: Digest::of(&nth.to_be_bytes()),
            chunks: &[ChunkPut { content: "w", vector: None }],
            model: None,
            spaces: &[],
            key_spaces: None,
            quota: MemoryQuota { memories_max: 1000, bytes_max: ByPlan::new(|_| 0) },
        };
        world.server.app.store.memory_put(&put, now).await.unwrap();
    }
    let key = world.post("/api/v1/keys", &person.cookie, &json!({ "name": "revoked" })).await.expect(201);
    let mut stream = TcpStream::connect(world.server.address).await.unwrap();
    let head = format!(
        "GET /v1/export HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\r\n",
        key["key"].as_str().unwrap()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut begun = [0; 1024];
    stream.read_exact(&mut begun).await.unwrap();
    assert!(begun.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&begun));
    world.delete(&format!("/api/v1/keys/{}", key["id"].as_str().unwrap()), &person.cookie).await.expect(200);
    // Wait until the next check is due.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut rest = Vec::new();
    // The connection may also be reset.
    let _ = stream.read_to_end(&mut rest).await;
    let whole = world.get("/v1/export", &kept).await;
    assert_eq!(String::from_utf8_lossy(&whole.body).lines().count(), 160);
    assert!(!rest.ends_with(b"0\r\n\r\n"), "the export looks whole");
    assert!(rest.len() < whole.body.len(), "{} of {} bytes", rest.len(), whole.body.len());
}

/// A request with a large `Content-Length` and no body.
async fn slow(world: &World, key: &Credential) -> TcpStream {
    let Credential::Bearer(token) = key else { unreachable!() };
    let mut stream = TcpStream::connect(world.server.address).await.unwrap();
    let head = format!(
        "POST /v1/batch-add HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 2097152\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Asserts that exactly one of these requests is answered; returns its status and the others.
async fn refused_one(mut slow: Vec<TcpStream>) -> (String, Vec<TcpStream>) {
    let mut line = [[0_u8; 12]; 5];
    let reading = slow.iter_mut().zip(&mut line).map(|(stream, line)| stream.read_exact(line).boxed());
    let (read, at, _) = select_all(reading).await;
    read.unwrap();
    slow.remove(at);
    (String::from_utf8(line[at].to_vec()).unwrap(), slow)
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_large_bodies_of_one_account_do_not_affect_others() {
    let world = World::with(|settings| {
        settings.knowledge.batch.large_bodies_max = 3;
        settings.knowledge.batch.large_bodies_per_account_max = 2;
        settings.knowledge.batch.large_bodies_waiting_max = 3;
        settings.knowledge.batch.large_bodies_wait = blackbox::TIME_LIMIT;
        settings.knowledge.batch.large_bodies_turn = blackbox::TIME_LIMIT;
        settings.http.body_rate_min = 0;
        settings.knowledge.embedding.provider = EmbeddingProvider::None;
    })
    .await;
    let (_, ada) = world.librarian("ada@example.com").await;
    let (_, bob) = world.librarian("bob@example.com").await;
    // Two are read, two wait for them.
    let mut of_ada = Vec::new();
    for _ in 0..5 {
        of_ada.push(slow(&world, &ada).await);
    }
    let (status, of_ada) = refused_one(of_ada).await;
    assert_eq!((status.as_str(), of_ada.len()), ("HTTP/1.1 429", 4));
    // One place is free for other accounts, and one request can wait in addition to the requests of the first account.
    let of_bob = vec![slow(&world, &bob).await, slow(&world, &bob).await, slow(&world, &bob).await];
    let (status, of_bob) = refused_one(of_bob).await;
    assert_eq!((status.as_str(), of_bob.len()), ("HTTP/1.1 503", 2));
    // A small body needs no slot, with or without `Content-Length`.
    for key in [&ada, &bob] {
        world.add(key, json!({ "contents": [{ "content": "A small note" }] })).await.whole().await;
        let body = json!({ "contents": [{ "content": "Sent piece by piece" }] }).to_string();
        let request = world.request(reqwest::Method::POST, "/v1/batch-add", key);
        let body = reqwest::Body::wrap_stream(futures_util::stream::iter([Ok::<_, std::io::Error>(body)]));
        let response = request.header("content-type", "application/json").body(body).send().await.unwrap();
        blackbox::stream::Stream::open(response).await.whole().await;
    }
    drop((of_ada, of_bob));
    let megabyte = |nth: usize| json!({ "content": format!("{nth} {}", "w ".repeat(400_000)) });
    let large = json!({ "contents": (0..3).map(megabyte).collect::<Vec<Value>>() });
    let added = eventually("the places are free again", async || {
        let request = world.request(reqwest::Method::POST, "/v1/batch-add", &ada).json(&large);
        // A refusal may arrive and close the connection before everything is sent.
        let response = request.send().await.ok()?;
        (response.status() == 200).then_some(response)
    });
    blackbox::stream::Stream::open(added.await).await.whole().await;
}
