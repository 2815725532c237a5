//! A batch of a node that stops is continued by another one.

use blackbox::library;
use blackbox::process::Home;
use blackbox::stream::Stream;

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_a_node_that_stops_is_continued_by_another_at_once() {
    const NOTES: usize = 200;
    let Some(database) = harness::postgres::database().await else { return };
    // A lease that no test waits for: the other node may continue only because it is given back.
    let home = || {
        let home = Home::new().set("database.url", &database.url);
        home.set("knowledge.batch.lease", "1h").set("knowledge.base_url", "http://attache.test")
    };
    let (one, other) = (home(), home());
    let key = library::key_of(&one);
    let (mut first, second) = (one.serve().await, other.serve().await);
    let add = library::request(&first, &key, reqwest::Method::POST, "/v1/batch-add").json(&library::notes(NOTES));
    let mut stream = Stream::open(add.send().await.unwrap()).await;
    let batch = stream.batch.clone();
    let mut messages = vec![stream.next().await.unwrap(), stream.next().await.unwrap()];
    first.process.signal("TERM");
    while let Some(message) = stream.next_or_cut().await {
        messages.push(message);
    }
    assert_ne!(messages.last().unwrap()["type"], "complete", "the batch ended before the node did");
    let last = stream.last.clone();
    messages.extend(library::rejoin(&second, &key, &batch, last.as_deref()).await.rest().await);
    library::assert_stored(&second, &key, &messages).await;
    assert_eq!(first.process.exit().await.code(), Some(0), "{}", first.process.stderr.text());
    assert!(first.process.stderr.text().contains("the lease of a batch was given back"));
}
