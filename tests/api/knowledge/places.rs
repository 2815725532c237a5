//! What there are only so many places for: streams that are told, and large bodies in memory.

use futures_util::FutureExt;
use futures_util::future::select_all;
use knowledge::embed::Provider;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::closed_network;
use super::site::Site;
use crate::world::{Credential, World};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_begun_that_there_is_no_stream_for() {
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
    let batches = world.server.house.store.batches_of_account(&person.account, 10).await.unwrap();
    assert_eq!(batches.len(), 1, "what was refused was kept: {batches:?}");
    assert_eq!(world.found(&key, json!({ "query": "nobody hears" })).await, [""; 0]);
    drop(listening);
    let added = world.eventually("the place is free again", async || {
        let request = world.request(reqwest::Method::POST, "/v1/batch-add", &key).json(&note);
        let response = request.send().await.unwrap();
        (response.status() == 200).then_some(response)
    });
    super::stream::Stream::open(added.await).await.whole().await;
}

/// A request that says to be large, and of which nothing more comes.
async fn slow(world: &World, key: &Credential) -> TcpStream {
    let Credential::Bearer(token) = key else { unreachable!() };
    let mut stream = TcpStream::connect(world.server.address).await.unwrap();
    let head = format!(
        "POST /v1/batch-add HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 2097152\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Of these requests only one is answered; gives the status of that answer and the others.
async fn refused_one(mut slow: Vec<TcpStream>) -> (String, Vec<TcpStream>) {
    let mut line = [[0_u8; 12]; 4];
    let reading = slow.iter_mut().zip(&mut line).map(|(stream, line)| stream.read_exact(line).boxed());
    let (read, at, _) = select_all(reading).await;
    read.unwrap();
    slow.remove(at);
    (String::from_utf8(line[at].to_vec()).unwrap(), slow)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_sends_large_bodies_slowly_is_in_nobodys_way() {
    let world = World::with(|settings| {
        settings.knowledge.batch.large_bodies_max = 3;
        settings.knowledge.batch.large_bodies_per_account_max = 2;
        settings.http.body_rate_min = 0;
        settings.knowledge.embedding.provider = Provider::None;
    })
    .await;
    let (_, ada) = world.librarian("ada@example.com").await;
    let (_, bob) = world.librarian("bob@example.com").await;
    let (status, of_ada) =
        refused_one(vec![slow(&world, &ada).await, slow(&world, &ada).await, slow(&world, &ada).await]).await;
    assert_eq!((status.as_str(), of_ada.len()), ("HTTP/1.1 429", 2));
    // There is one place left for others.
    let (status, of_bob) = refused_one(vec![slow(&world, &bob).await, slow(&world, &bob).await]).await;
    assert_eq!((status.as_str(), of_bob.len()), ("HTTP/1.1 503", 1));
    // What is not large needs no place, whatever else goes on, whether it says its length or not.
    for key in [&ada, &bob] {
        world.add(key, json!({ "contents": [{ "content": "A small note" }] })).await.whole().await;
        let body = json!({ "contents": [{ "content": "Sent piece by piece" }] }).to_string();
        let request = world.request(reqwest::Method::POST, "/v1/batch-add", key);
        let body = reqwest::Body::wrap_stream(futures_util::stream::iter([Ok::<_, std::io::Error>(body)]));
        let response = request.header("content-type", "application/json").body(body).send().await.unwrap();
        super::stream::Stream::open(response).await.whole().await;
    }
    drop((of_ada, of_bob));
    let megabyte = |nth: usize| json!({ "content": format!("{nth} {}", "w ".repeat(400_000)) });
    let large = json!({ "contents": (0..3).map(megabyte).collect::<Vec<Value>>() });
    let added = world.eventually("the places are free again", async || {
        let request = world.request(reqwest::Method::POST, "/v1/batch-add", &ada).json(&large);
        // A refusal may come, and close the connection, before everything was sent.
        let response = request.send().await.ok()?;
        (response.status() == 200).then_some(response)
    });
    super::stream::Stream::open(added.await).await.whole().await;
}
