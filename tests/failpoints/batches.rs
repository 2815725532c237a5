//! Death and panic at every step of a batch.

use serde_json::{Value, json};

use crate::client::eventually;
use crate::library::{asking, assert_kept, library, notes, rejoin};
use crate::stream::Stream;

const NOTES: usize = 8;

/// Adds, hears until the server dies at `place`, and hears the rest from the next one.
async fn dies_at(place: &str) {
    let (home, key) = library();
    let mut server = home.serve_failing(&format!("{place}=2*off->1*return")).await;
    let add = asking(&server, &key, reqwest::Method::POST, "/v1/batch-add").json(&notes(NOTES));
    let mut stream = Stream::open(add.send().await.unwrap()).await;
    let (batch, mut told) = (stream.batch.clone(), Vec::new());
    while let Some(message) = stream.heard().await {
        told.push(message);
    }
    assert_eq!(server.process.exit().await.code(), None, "it ended by a signal of its own");
    let server = home.serve().await;
    told.extend(rejoin(&server, &key, &batch, stream.last.as_deref()).await.rest().await);
    assert_kept(&server, &key, &told).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_goes_on_after_a_death_before_an_item_is_committed() {
    dies_at("batches.ready").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_goes_on_after_a_death_between_a_memory_and_its_outcome() {
    dies_at("batches.put").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_goes_on_after_a_death_before_an_outcome_is_told() {
    dies_at("batches.finished").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_was_taken_is_worked_on_even_if_nobody_heard_of_it() {
    let (home, key) = library();
    let mut server = home.serve_failing("batches.taken=1*return").await;
    let add = asking(&server, &key, reqwest::Method::POST, "/v1/batch-add").json(&notes(NOTES));
    assert!(add.send().await.is_err(), "nobody was left to answer");
    server.process.exit().await;
    let server = home.serve().await;
    eventually("all notes are found", async || {
        let search = json!({ "query": "note about", "limit": 50 });
        let asked = asking(&server, &key, reqwest::Method::POST, "/v1/search").json(&search).send().await.unwrap();
        let found: Value = asked.json().await.unwrap();
        (found["results"].as_array().unwrap().len() == NOTES).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_when_the_actor_behind_it_panics() {
    let (home, key) = library();
    let server = home.serve_failing("batches.ready=2*off->1*panic->3*off->1*panic->off").await;
    let add = asking(&server, &key, reqwest::Method::POST, "/v1/batch-add").json(&notes(NOTES));
    let told = Stream::open(add.send().await.unwrap()).await.whole().await;
    assert_kept(&server, &key, &told).await;
}
