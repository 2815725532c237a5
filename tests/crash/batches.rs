//! A batch survives its client and its server: repeated kill −9 while it runs, and every item ends once.

use domain::Rng;

use blackbox::library::{assert_stored, library, notes, rejoin, request};
use blackbox::stream::Stream;

const NOTES: usize = 60;

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_has_one_outcome_per_item_through_server_kills() {
    let seed = std::env::var("ATTACHE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    let rng = Rng::seeded(seed);
    let (home, key) = library();
    let mut server = home.serve().await;
    let add = request(&server, &key, reqwest::Method::POST, "/v1/batch-add").json(&notes(NOTES));
    let mut stream = Stream::open(add.send().await.unwrap()).await;
    let batch = stream.batch.clone();
    let (mut messages, mut last, mut deaths) = (Vec::new(), None, 0);
    loop {
        // Number of messages before the next kill.
        let time_limit = 1 + u32::from(rng.bytes::<1>()[0] % 30);
        for _ in 0..time_limit {
            match stream.next_or_cut().await {
                Some(message) => messages.push(message),
                None => break,
            }
        }
        last = stream.last.clone().or(last);
        if messages.last().is_some_and(|message| message["type"] == "complete") {
            break;
        }
        server.process.kill();
        deaths += 1;
        server = home.serve().await;
        stream = rejoin(&server, &key, &batch, last.as_deref()).await;
    }
    assert!(deaths > 2, "seed {seed}: it died only {deaths} times");
    assert_stored(&server, &key, &messages).await;
    // The stream from its start is the same.
    assert_eq!(rejoin(&server, &key, &batch, None).await.whole().await, messages);
}
