//! A few accounts use all shared resources, and an honest account still gets its share (`docs/decisions/0034-fair-shares.md`). The tests
//! count turns, not seconds: the same computer runs the attack.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use knowledge::embed::EmbeddingProvider;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use blackbox::client::Credential;
use blackbox::receiver::Receiver;
use blackbox::site::Site;
use blackbox::world::{Person, World};
use blackbox::{eventually, raw};

/// Accounts of the attack.
const GREEDY: usize = 3;

async fn greedy(world: &World, count: usize) -> Vec<(Person, Credential)> {
    let mut greedy = Vec::new();
    for nth in 0..count {
        greedy.push(world.librarian(&format!("greedy-{nth}@example.com")).await);
    }
    greedy
}

/// A web server at all addresses of this computer that accepts connections and never responds; returns its port and the number of its
/// connections.
async fn silent_sites() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
    let (port, seen) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&seen);
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            open.push(stream);
        }
    });
    (port, seen)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_sites_of_few_accounts_delay_a_page_by_turns() {
    const HOSTS: usize = 24;
    let ((silent, seen), (_, site)) = (silent_sites().await, Site::start().await);
    let world = World::with(|settings| {
        settings.knowledge.worker = Some(env!("CARGO_BIN_EXE_attache").into());
        settings.knowledge.embedding.provider = EmbeddingProvider::None;
        let fetch = &mut settings.knowledge.fetch;
        fetch.allow_private = vec!["127.0.0.0/8".parse().unwrap()];
        fetch.ports = vec![silent, site.port()];
        (fetch.in_flight_max, fetch.in_flight_per_account_max, fetch.in_flight_slow_max) = (4, 2, 2);
        (fetch.robots_timeout, fetch.slow_after) = (Duration::from_secs(1), Duration::from_millis(500));
        (fetch.host_interval, fetch.retries_max) = (Duration::ZERO, 0);
    })
    .await;
    let (_, honest) = world.librarian("ada@example.com").await;
    let mut streams = Vec::new();
    for (nth, (_, key)) in greedy(&world, GREEDY).await.iter().enumerate() {
        let urls: Vec<String> =
            (0..HOSTS).map(|host| format!("http://127.0.{}.{}:{silent}/", nth + 1, host + 1)).collect();
        streams.push(world.add(key, json!({ "urls": urls })).await);
    }
    eventually("each account has had turns", async || (seen.load(Ordering::SeqCst) > 2 * GREEDY).then_some(())).await;
    let count = seen.load(Ordering::SeqCst);
    let messages = world.add(&honest, json!({ "urls": [format!("http://{site}/text")] })).await.whole().await;
    assert!(messages.iter().any(|message| message["type"] == "success"), "{messages:?}");
    // robots.txt and the page, each after at most one request of each other account, and the requests that start during the fetch. In one
    // queue for all accounts, both would be behind the 24 items in preparation.
    let turns = seen.load(Ordering::SeqCst) - count;
    assert!(turns <= 8 * GREEDY, "{turns} requests of others were sent before the page");
}

const WEBHOOKS: &str = "/api/v1/webhooks";

async fn endpoint(world: &World, person: &Person, receiver: &str, path: &str) -> String {
    let body = json!({ "url": format!("http://{receiver}/{path}"), "kinds": ["batch.done"] });
    let made = world.post(WEBHOOKS, &person.cookie, &body).await.expect(201);
    format!("{WEBHOOKS}/{}/test", made["id"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_endpoints_of_few_accounts_delay_a_notification_by_turns() {
    const ENDPOINTS: usize = 3;
    const NOTIFICATIONS: usize = 8;
    let (receiver, address) = Receiver::start().await;
    let world = World::with(|settings| {
        let webhooks = &mut settings.webhooks;
        (webhooks.enabled, webhooks.allow_http) = (true, true);
        webhooks.allow_private = vec!["127.0.0.0/8".parse().unwrap()];
        webhooks.ports = vec![address.port()];
        (webhooks.in_flight_max, webhooks.in_flight_per_account_max, webhooks.in_flight_slow_max) = (4, 2, 2);
        (webhooks.turn, webhooks.slow_after) = (Duration::from_millis(500), Duration::from_millis(300));
        webhooks.look_every = Duration::from_millis(20);
    })
    .await;
    let honest = world.person("ada@example.com").await;
    let test = endpoint(&world, &honest, &address.to_string(), "hers").await;
    for (person, _) in greedy(&world, GREEDY).await {
        for _ in 0..ENDPOINTS {
            let test = endpoint(&world, &person, &address.to_string(), "slow").await;
            for _ in 0..NOTIFICATIONS {
                world.post(&test, &person.cookie, &json!({})).await.expect(200);
            }
        }
    }
    receiver.wait("slow", 4).await;
    let count = receiver.at("slow").len();
    world.post(&test, &honest.cookie, &json!({})).await.expect(200);
    receiver.wait("hers", 1).await;
    let turns = receiver.at("slow").len() - count;
    // If a turn ended with the last notification, four endpoints would keep the places for all their notifications.
    assert!(turns <= 4 * GREEDY, "{turns} requests to others were sent before");
}

/// Lines of an import with a text, for this number of memories.
fn lines(count: usize) -> String {
    let line = |nth: usize| {
        json!({
            "id": format!("019b76da-a800-7a67-8a14-94a3f41b063{nth:x}"), "title": "", "url": "", "content": format!("Memory number {nth}"),
            "createdAt": "2026-01-01T00:00:00.000Z", "updatedAt": "2026-01-01T00:00:00.000Z", "type": "note", "spaces": [],
        })
        .to_string()
    };
    (0..count).map(line).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn imports_whose_clients_read_nothing_keep_no_one_out() {
    let world = World::with(|settings| settings.knowledge.embedding.provider = EmbeddingProvider::None).await;
    let (_, honest) = world.librarian("ada@example.com").await;
    // A wrong value of a megabyte in each line, which an error used to repeat.
    let wrong = json!({ "type": "x".repeat(1_000_000) }).to_string();
    let body = [wrong.as_str(); 6].join("\n");
    let mut attack = Vec::new();
    for (_, key) in greedy(&world, 9).await {
        let Credential::Bearer(token) = key else { unreachable!() };
        let mut stream = TcpStream::connect(world.server.address).await.unwrap();
        let head = format!(
            "POST /v1/import HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/x-ndjson\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        attack.push(stream);
    }
    let request = world.request(Method::POST, "/v1/import", &honest).header("content-type", "application/x-ndjson");
    let response = world.send(request.body(lines(3))).await;
    assert_eq!(response.status, 200, "{response:?}");
    let last: Value =
        serde_json::from_slice(response.body.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap()).unwrap();
    assert_eq!(last, json!({ "type": "complete", "created": 3, "existing": 0, "failed": 0 }));
    // The wrong values are not repeated.
    for mut stream in attack {
        let mut response = Vec::new();
        while !String::from_utf8_lossy(&response).contains("complete") {
            assert!(stream.read_buf(&mut response).await.unwrap() > 0, "{}", String::from_utf8_lossy(&response));
        }
        assert!(response.len() < 10_000, "{} bytes", response.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_large_bodies_of_few_accounts_delay_another_by_turns() {
    let world = World::with(|settings| {
        settings.knowledge.embedding.provider = EmbeddingProvider::None;
        let batch = &mut settings.knowledge.batch;
        (batch.large_bodies_max, batch.large_bodies_per_account_max) = (4, 2);
        batch.large_bodies_turn = Duration::from_millis(100);
        batch.large_bodies_wait = blackbox::TIME_LIMIT;
        settings.http.body_rate_min = 0;
    })
    .await;
    let (_, honest) = world.librarian("ada@example.com").await;
    let greedy = greedy(&world, GREEDY).await;
    let mut attack = Vec::new();
    for (_, key) in greedy.iter().chain(&greedy) {
        let Credential::Bearer(token) = key else { unreachable!() };
        let begun = raw::begun("/v1/batch-add", 2_097_152).replacen(
            "\r\n",
            &format!("\r\nAuthorization: Bearer {token}\r\n"),
            1,
        );
        let mut stream = TcpStream::connect(world.server.address).await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        attack.push(stream);
    }
    let note = |nth: usize| json!({ "content": format!("{nth} {}", "w ".repeat(400_000)) });
    let large = json!({ "contents": (0..3).map(note).collect::<Vec<Value>>() });
    for _ in 0..3 {
        world.add(&honest, large.clone()).await.whole().await;
    }
}
