//! Batches: their bounds, their stream, joining again, cancelling.

use std::time::Duration;

use knowledge::embed::EmbeddingProvider;
use serde_json::{Value, json};

use super::closed_network;
use blackbox::client::{Credential, Response};
use blackbox::eventually;
use blackbox::site::Site;
use blackbox::stream::assert_whole;
use blackbox::world::World;
use harness::{on_each_database, on_sqlite};

fn notes(count: usize) -> Vec<Value> {
    (0..count).map(|nth| json!({ "content": format!("Note number {nth} of many") })).collect()
}

on_sqlite! {
    async fn a_batch_streams_the_outcome_of_each_item(world: World) {
        let (_, key) = world.librarian("ada@example.com").await;
        let body = json!({
            "urls": ["ftp://example.com/", "http://192.168.0.1/"],
            "contents": [
                { "content": "First note", "title": "  One ", "type": "tweet" },
                { "content": " \n ", "title": "Empty" },
                { "content": "Second note", "title": null, "type": null },
            ],
        });
        let messages = world.add(&key, body).await.whole().await;
        let at = |index: u64| messages.iter().find(|message| message["index"] == index).unwrap();
        assert_eq!((&at(0)["error"], &at(0)["url"]), (&json!("invalid_url"), &json!("ftp://example.com/")));
        assert_eq!((&at(1)["error"], &at(1)["url"]), (&json!("blocked_address"), &json!("http://192.168.0.1/")));
        assert_eq!((&at(3)["error"], &at(3)["title"]), (&json!("empty_content"), &json!("Empty")));
        let kept: Vec<&Value> = messages.iter().filter(|message| message["type"] == "success").collect();
        assert_eq!(kept.len(), 2);
        let title = async |index: u64| {
            let path = format!("/v1/memories/{}", at(index)["id"].as_str().unwrap());
            world.get(&path, &key).await.expect(200)["title"].clone()
        };
        assert_eq!((title(2).await, title(4).await), (json!("One"), json!("Second note")), "each success names its item");
        let mut seen = Vec::new();
        for success in kept {
            let path = format!("/v1/memories/{}", success["id"].as_str().unwrap());
            assert_eq!(success["url"], format!("{}{path}", world.url));
            let memory = world.get(&path, &key).await.expect(200);
            seen.push(format!("{} {}", memory["title"].as_str().unwrap(), memory["type"].as_str().unwrap()));
        }
        seen.sort();
        assert_eq!(seen, ["One tweet", "Second note note"]);
    }

    async fn the_same_note_twice_is_one_memory_in_both_spaces(world: World) {
        let (_, key) = world.librarian("ada@example.com").await;
        let (one, two) = (world.space(&key, "One", false).await, world.space(&key, "Two", false).await);
        let into = |space: &str, content: &str| json!({ "contents": [{ "content": content }], "spaces": [space] });
        let first = world.add(&key, into(&one, "Cafe\u{301} notes  \r\n")).await.whole().await;
        let second = world.add(&key, into(&two, "Caf\u{e9} notes")).await.whole().await;
        assert_eq!(first[1]["id"], second[1]["id"]);
        let memory = world.get(&format!("/v1/memories/{}", first[1]["id"].as_str().unwrap()), &key).await.expect(200);
        let mut spaces: Vec<&str> = memory["spaces"].as_array().unwrap().iter().map(|space| space.as_str().unwrap()).collect();
        let mut expected = [one.as_str(), two.as_str()];
        spaces.sort_unstable();
        expected.sort_unstable();
        assert_eq!(spaces, expected);
        for space in [&one, &two] {
            assert_eq!(world.found(&key, json!({ "query": "notes", "spaces": [space] })).await.len(), 1);
        }
    }
}

on_each_database! {
    async fn a_repeated_request_with_its_key_joins_the_batch(world: World) {
        let (person, key) = world.librarian("ada@example.com").await;
        let (_, stranger) = world.librarian("bob@example.com").await;
        let inside = world.space(&key, "Inside", false).await;
        let limited = world.key(&person, json!({ "name": "some", "spaces": [inside] })).await;
        let add = |key: &Credential, name: &str, body: &Value| {
            world.request(reqwest::Method::POST, "/v1/batch-add", key).header("idempotency-key", name).json(body)
        };
        let body = json!({ "contents": notes(3) });
        let other = json!({ "contents": notes(4) });
        let batch = |response: &Response| response.header("x-batch-id").unwrap().to_owned();
        // Each of several concurrent requests gets the stream of the same batch.
        let responses = futures_util::future::join_all((0..5).map(|_| world.send(add(&key, "\"k-1\"", &body)))).await;
        let first = batch(&responses[0]);
        assert!(responses.iter().all(|response| response.status == 200 && batch(response) == first && response.body == responses[0].body));
        assert_eq!(world.get("/v1/memories", &key).await.expect(200)["memories"].as_array().unwrap().len(), 3);
        world.send(add(&key, "k-1", &other)).await.refused(422, "idempotency_key_reused");
        world.send(add(&limited, "k-1", &body)).await.refused(403, "space_forbidden");
        assert_ne!(batch(&world.send(add(&stranger, "k-1", &other)).await), first, "keys belong to their account");
        assert_ne!(batch(&world.send(add(&key, "k-2", &body)).await), first);
        world.send(add(&key, "", &body)).await.refused(400, "invalid_request");
        // A day later the key is free, and its batch may be gone.
        world.advance(Duration::from_hours(23));
        assert_eq!(batch(&world.send(add(&key, "k-1", &body)).await), first);
        world.advance(Duration::from_mins(61));
        assert_ne!(batch(&world.send(add(&key, "k-1", &other)).await), first);
    }
}

on_sqlite! {
    async fn limits_of_a_batch_are_enforced(world: World) {
        let (_, key) = world.librarian("ada@example.com").await;
        let one_more: Vec<String> = (0..21).map(|_| world.rng().uuid_v7(world.clock().now()).to_string()).collect();
        for (body, path) in [
            (json!({}), ""),
            (json!({ "urls": [], "contents": [] }), ""),
            (json!({ "urls": null }), ""),
            (json!({ "urls": vec!["http://example.com/"; 601] }), ""),
            (json!({ "urls": vec!["http://example.com/"; 300], "contents": notes(301) }), ""),
            (json!({ "contents": notes(1), "spaces": one_more }), "spaces"),
            (json!({ "contents": [{ "content": "x" }, { "content": "x".repeat(1024 * 1024 + 1) }] }), "contents[1].content"),
            (json!({ "contents": [{ "title": "no content" }] }), "contents[0].content"),
            // An object is no list of its members.
            (json!({ "contents": [{ "content": "x" }, ["x", "y", "note"]] }), "contents[1]"),
            (json!({ "contents": [["x"]] }), "contents[0]"),
            (json!({ "contents": [{ "content": "x", "type": "book" }] }), "contents[0].type"),
            (json!({ "urls": [5] }), "urls[0]"),
            (json!({ "urls": "http://example.com/" }), "urls"),
        ] {
            let response = world.add_refused(&key, body).await.refused(400, "invalid_request");
            assert_eq!(response["issues"][0]["path"], path, "{response}");
        }
    }

    async fn a_rejoined_stream_has_the_remaining_messages(world: World) {
        let (_, key) = world.librarian("ada@example.com").await;
        let (_, stranger) = world.librarian("bob@example.com").await;
        let mut stream = world.add(&key, json!({ "contents": notes(12) })).await;
        let mut heard = vec![stream.next().await.unwrap(), stream.next().await.unwrap(), stream.next().await.unwrap()];
        let (batch, last) = (stream.batch.clone(), stream.last.clone());
        drop(stream);
        heard.extend(world.rejoin(&key, &batch, last.as_deref()).await.rest().await);
        assert_whole(&heard);
        // Again from the start, and again after the end.
        assert_eq!(world.rejoin(&key, &batch, None).await.whole().await, heard);
        let end = format!("{batch}:{}", heard.len() - 1);
        let path = format!("/v1/batch-add/{batch}");
        // An EventSource reconnects after every end, unless the response is 204.
        let after_the_end = world.request(reqwest::Method::GET, &path, &key).header("last-event-id", &end);
        let nothing = world.send(after_the_end).await;
        assert_eq!((nothing.status, nothing.body.len(), nothing.header("content-type")), (204, 0, None));
        let before_the_end = format!("{batch}:{}", heard.len() - 2);
        assert_eq!(world.rejoin(&key, &batch, Some(&before_the_end)).await.rest().await, [json!({ "type": "complete" })]);
        world.get(&path, &stranger).await.refused(404, "not_found");
        world.delete(&path, &stranger).await.refused(404, "not_found");
        world.get("/v1/batch-add/nonsense", &key).await.refused(404, "not_found");
        for wrong in ["7", "x:7", &format!("{}:1", world.rng().uuid_v7(world.clock().now()))] {
            let request = world.request(reqwest::Method::GET, &path, &key).header("last-event-id", wrong);
            world.send(request).await.refused(400, "invalid_request");
        }
        world.delete(&path, &key).await.expect(200);
        assert_eq!(world.rejoin(&key, &batch, None).await.whole().await, heard, "what has ended is not cancelled any more");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_continues_without_its_client_until_it_is_cancelled() {
    let (site, address) = Site::start().await;
    let world = World::with(|settings| {
        closed_network(settings);
        settings.knowledge.fetch.ports = vec![address.port()];
        settings.knowledge.batch.heartbeat = Duration::from_millis(100);
    })
    .await;
    let (_, key) = world.librarian("ada@example.com").await;
    // Another name for the same server: hosts do not wait for each other.
    let urls = [format!("http://{address}/gated"), format!("http://localhost:{}/silent", address.port())];
    let stream = world.add(&key, json!({ "urls": urls, "contents": notes(2) })).await;
    let batch = stream.batch.clone();
    drop(stream);
    let mut watching = world.rejoin(&key, &batch, None).await;
    // The notes need no web server.
    while watching.next().await.unwrap()["processed"] != 2 {}
    while watching.heartbeats == 0 {
        tokio::select! {
            message = watching.next() => panic!("{message:?}"),
            () = tokio::time::sleep(Duration::from_millis(50)) => {}
        }
    }
    site.open_gate();
    let opened = watching.next().await.unwrap();
    assert_eq!(opened["type"], "success", "{opened}");
    assert_eq!(world.delete(&format!("/v1/batch-add/{batch}"), &key).await.expect(200), json!({ "ok": true }));
    let messages = watching.rest().await;
    assert!(messages.iter().any(|message| message["error"] == "cancelled"), "{messages:?}");
    assert_whole(&world.rejoin(&key, &batch, None).await.rest().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn running_batches_per_account_are_limited() {
    let (_, address) = Site::start().await;
    let world = World::with(|settings| {
        closed_network(settings);
        settings.knowledge.fetch.ports = vec![address.port()];
    })
    .await;
    let (_, key) = world.librarian("ada@example.com").await;
    let (_, other) = world.librarian("bob@example.com").await;
    let waiting = json!({ "urls": [format!("http://{address}/silent")] });
    let mut running = Vec::new();
    for _ in 0..4 {
        running.push(world.add(&key, waiting.clone()).await);
    }
    let refused = world.add_refused(&key, waiting.clone()).await;
    refused.refused(429, "rate_limited");
    assert!(refused.header("retry-after").is_some());
    world.add(&other, json!({ "contents": notes(1) })).await.whole().await;
    world.delete(&format!("/v1/batch-add/{}", running[0].batch), &key).await.expect(200);
    world.add(&key, json!({ "contents": notes(1) })).await.whole().await;
    // A stream that is open while the server stops ends at once, and the next server sends the rest.
    let batch = running[1].batch.clone();
    let world = world.restart().await;
    for stream in &mut running[1..] {
        let messages = stream.rest().await;
        assert!(messages.iter().all(|message| message["type"] != "complete"), "{messages:?}");
    }
    world.delete(&format!("/v1/batch-add/{batch}"), &key).await.expect(200);
    assert_whole(&world.rejoin(&key, &batch, None).await.rest().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn memories_per_account_are_limited() {
    let (_, address) = Site::start().await;
    let world = World::with(|settings| {
        closed_network(settings);
        settings.knowledge.fetch.ports = vec![address.port()];
        settings.knowledge.memories_per_account_max = 3;
    })
    .await;
    let (_, key) = world.librarian("ada@example.com").await;
    let messages = world.add(&key, json!({ "contents": notes(5) })).await.whole().await;
    assert_eq!(messages.iter().filter(|message| message["type"] == "success").count(), 3);
    assert_eq!(messages.iter().filter(|message| message["error"] == "quota_exceeded").count(), 2);
    // An item error has the item as the client wrote it, not as the server normalised it.
    let url = format!("http://{address}/text?utm_source=x#part");
    let contents = json!([{ "content": "# A heading", "title": "Mine" }, { "content": "# Another heading" }]);
    let messages = world.add(&key, json!({ "urls": [url], "contents": contents })).await.whole().await;
    let at = |index: u64| messages.iter().find(|message| message["index"] == index).unwrap();
    assert!((0..3).all(|index| at(index)["error"] == "quota_exceeded"), "{messages:?}");
    assert_eq!((&at(0)["url"], at(0).get("title")), (&json!(url), None));
    assert_eq!((&at(1)["title"], at(1).get("url")), (&json!("Mine"), None));
    assert_eq!((at(2).get("title"), at(2).get("url")), (None, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_items_are_reported_as_the_client_wrote_them() {
    let (_, address) = Site::start().await;
    let world = World::with(|settings| {
        closed_network(settings);
        settings.knowledge.fetch.ports = vec![address.port()];
        settings.knowledge.batch.items_at_once = 1;
    })
    .await;
    let (_, key) = world.librarian("ada@example.com").await;
    let url = format!("http://{address}/silent#here");
    let contents = json!([{ "content": "First", "title": "Titled \u{0}" }, { "content": "Second" }]);
    let mut stream = world.add(&key, json!({ "urls": [url], "contents": contents })).await;
    world.delete(&format!("/v1/batch-add/{}", stream.batch), &key).await.expect(200);
    let messages = stream.rest().await;
    assert_whole(&messages);
    let at = |index: u64| messages.iter().find(|message| message["index"] == index).unwrap();
    assert!((0..3).all(|index| at(index)["error"] == "cancelled"), "{messages:?}");
    assert_eq!((&at(0)["url"], at(0).get("title")), (&json!(url), None));
    assert_eq!((&at(1)["title"], at(1).get("url")), (&json!("Titled \u{0}"), None));
    assert_eq!((at(2).get("title"), at(2).get("url")), (None, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_followed_from_any_node() {
    let Some(world) = World::on_postgres().await else { return };
    let second = world.beside().await;
    let (_, key) = world.librarian("ada@example.com").await;
    let mut stream = world.add(&key, json!({ "contents": notes(30) })).await;
    let elsewhere = second.rejoin(&key, &stream.batch, None).await.whole().await;
    assert_eq!(stream.rest().await, elsewhere);
    assert_eq!(second.found(&key, json!({ "query": "number 17", "limit": 50 })).await.len(), 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purged_batch_is_not_replayed_from_memory() {
    let world = World::with(|settings| settings.janitor.every = Duration::from_millis(50)).await;
    let (_, key) = world.librarian("ada@example.com").await;
    let stream = world.add(&key, json!({ "contents": notes(2) })).await;
    let path = format!("/v1/batch-add/{}", stream.batch);
    let messages = stream.whole().await;
    let batch = path.rsplit('/').next().unwrap();
    assert_eq!(world.rejoin(&key, batch, None).await.whole().await, messages);
    world.advance(Duration::from_hours(48));
    eventually("it is gone", async || (world.get(&path, &key).await.status == 404).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_batch_bodies_are_accepted_up_to_their_limit() {
    let world = World::with(|settings| {
        settings.knowledge.batch.body_bytes_max = 4 * 1024 * 1024;
        settings.knowledge.embedding.provider = EmbeddingProvider::None;
    })
    .await;
    let (_, key) = world.librarian("ada@example.com").await;
    let megabyte = |nth: usize| format!("{nth} {}", "w ".repeat(524_287));
    assert_eq!(megabyte(0).len(), 1024 * 1024);
    let contents: Vec<Value> = (0..3).map(|nth| json!({ "content": megabyte(nth) })).collect();
    let messages = world.add(&key, json!({ "contents": contents })).await.whole().await;
    assert!(messages.iter().all(|message| message["type"] != "error"), "{messages:?}");
    let contents: Vec<Value> =
        (0..5).map(|nth| json!({ "content": format!("{nth} {}", "x".repeat(1_000_000)) })).collect();
    world.add_refused(&key, json!({ "contents": contents })).await.refused(413, "payload_too_large");
}
