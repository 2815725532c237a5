//! The separate database of the memory dies or freezes, or a node dies, while a batch runs: every item ends once and is stored once, and
//! events notice nothing.

use std::time::Duration;

use blackbox::flow;
use blackbox::library::{key_of, notes_about, rejoin, request};
use blackbox::process::Home;
use blackbox::stream::Stream;
use harness::event::Chain;
use harness::relay::Relay;
use reqwest::Method;
use serde_json::Value;

/// Notes of each batch.
const NOTES: usize = 40;

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_stores_each_item_once_while_its_memory_dies_and_freezes() {
    let Some(main) = harness::postgres::database().await else { return };
    let Some(memory) = harness::postgres::cluster().await else { return };
    let relay = Relay::before(&memory.url).await;
    let home = || {
        let home = Home::new().set("database.url", &main.url).set("knowledge.database.url", &relay.url);
        home.set("knowledge.batch.lease", "1s").set("knowledge.base_url", "http://attache.test")
    };
    let (one, other) = (home(), home());
    let key = key_of(&one);
    let (mut first, second) = (one.serve().await, other.serve().await);
    let machine = flow::machine(&second).await;
    let mut chain = Chain::new(&machine);
    let mut stored: Vec<String> = Vec::new();
    let rounds = if std::env::var("ATTACHE_SOAK").is_ok_and(|value| value == "1") { 20 } else { 1 };
    for fault in 0..3 * rounds {
        let notes = notes_about(&format!("fault{fault}"), NOTES);
        let adding = request(&first, &key, Method::POST, "/v1/batch-add").json(&notes).send().await.unwrap();
        let mut stream = Stream::open(adding).await;
        for _ in 0..5 {
            stream.next().await.unwrap();
        }
        match fault % 3 {
            0 => memory.stop("immediate"),
            1 => relay.freeze(),
            _ => first.process.kill(),
        }
        for _ in 0..10 {
            flow::event(&second, &machine, &chain.next()).await.receipt();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        match fault % 3 {
            0 => memory.start(),
            1 => relay.thaw(),
            _ => first = one.serve().await,
        }
        let messages = rejoin(&second, &key, &stream.batch, None).await.whole().await;
        let added = messages.iter().filter_map(|message| message["id"].as_str().map(str::to_owned));
        let before = stored.len();
        stored.extend(added);
        assert_eq!(stored.len() - before, NOTES, "fault {fault}: {messages:?}");
    }
    let export = request(&second, &key, Method::GET, "/v1/export").send().await.unwrap().text().await.unwrap();
    let mut found: Vec<String> =
        export.lines().map(|line| flow::text(&serde_json::from_str::<Value>(line).unwrap(), "id")).collect();
    found.sort_unstable();
    stored.sort_unstable();
    assert_eq!(found, stored, "each once");
}
