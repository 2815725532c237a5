//! A batch survives its client and its server: kill −9 in its middle, again and again, and every item ends once.

use domain::Rng;

use crate::library::{asking, assert_kept, library, notes, rejoin};
use crate::stream::Stream;

const NOTES: usize = 60;

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_ends_once_for_every_item_however_often_the_server_dies() {
    let seed = std::env::var("ATTACHE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    let rng = Rng::seeded(seed);
    let (home, key) = library();
    let mut server = home.serve().await;
    let add = asking(&server, &key, reqwest::Method::POST, "/v1/batch-add").json(&notes(NOTES));
    let mut stream = Stream::open(add.send().await.unwrap()).await;
    let batch = stream.batch.clone();
    let (mut told, mut last, mut deaths) = (Vec::new(), None, 0);
    loop {
        // How much is heard before the next death.
        let patience = 1 + u32::from(rng.bytes::<1>()[0] % 30);
        for _ in 0..patience {
            match stream.heard().await {
                Some(message) => told.push(message),
                None => break,
            }
        }
        last = stream.last.clone().or(last);
        if told.last().is_some_and(|message| message["type"] == "complete") {
            break;
        }
        server.process.kill();
        deaths += 1;
        server = home.serve().await;
        stream = rejoin(&server, &key, &batch, last.as_deref()).await;
    }
    assert!(deaths > 2, "seed {seed}: it died only {deaths} times");
    assert_kept(&server, &key, &told).await;
    // Told again from the beginning, it is the same story.
    assert_eq!(rejoin(&server, &key, &batch, None).await.whole().await, told);
}
