//! Death and panic at every step of a batch.

use serde_json::{Value, json};

use blackbox::eventually;
use blackbox::library::{assert_stored, library, notes, rejoin, request};
use blackbox::stream::Stream;

const NOTES: usize = 8;

/// Adds a batch, reads its stream until the server dies at `place`, and the rest from the next server.
async fn dies_at(place: &str) {
    let (home, key) = library();
    let mut server = home.serve_failing(&format!("{place}=2*off->1*return")).await;
    let add = request(&server, &key, reqwest::Method::POST, "/v1/batch-add").json(&notes(NOTES));
    let mut stream = Stream::open(add.send().await.unwrap()).await;
    let (batch, mut messages) = (stream.batch.clone(), Vec::new());
    while let Some(message) = stream.next_or_cut().await {
        messages.push(message);
    }
    assert_eq!(server.process.exit().await.code(), None, "it ended by a signal of its own");
    let server = home.serve().await;
    messages.extend(rejoin(&server, &key, &batch, stream.last.as_deref()).await.rest().await);
    assert_stored(&server, &key, &messages).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_continues_after_a_death_before_an_item_is_committed() {
    dies_at("batches.ready").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_continues_after_a_death_between_a_memory_and_its_outcome() {
    dies_at("batches.put").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_continues_after_a_death_before_an_outcome_is_streamed() {
    dies_at("batches.finished").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_committed_batch_is_processed_even_if_its_response_was_lost() {
    let (home, key) = library();
    let mut server = home.serve_failing("batches.taken=1*return").await;
    let add = request(&server, &key, reqwest::Method::POST, "/v1/batch-add").json(&notes(NOTES));
    assert!(add.send().await.is_err(), "the server answered after its death");
    server.process.exit().await;
    let server = home.serve().await;
    eventually("all notes are found", async || {
        let search = json!({ "query": "note about", "limit": 50 });
        let response = request(&server, &key, reqwest::Method::POST, "/v1/search").json(&search).send().await.unwrap();
        let value: Value = response.json().await.unwrap();
        (value["results"].as_array().unwrap().len() == NOTES).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_continues_when_its_actor_panics() {
    let (home, key) = library();
    let server = home.serve_failing("batches.ready=2*off->1*panic->3*off->1*panic->off").await;
    let add = request(&server, &key, reqwest::Method::POST, "/v1/batch-add").json(&notes(NOTES));
    let messages = Stream::open(add.send().await.unwrap()).await.whole().await;
    assert_stored(&server, &key, &messages).await;
}
