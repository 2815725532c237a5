//! A single sender cannot exhaust shared resources.

use std::time::Duration;

use api::connection::Connection;
use reqwest::Method;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use blackbox::client::Credential;
use blackbox::eventually;
use blackbox::raw::{begun, connect, get, response, send};
use blackbox::world::World;

const HERE: [u8; 4] = [127, 0, 0, 1];
const ELSEWHERE: [u8; 4] = [127, 0, 0, 2];
const PROXY: [u8; 4] = [127, 0, 0, 9];

/// A deadline that none of these tests waits for.
const NEVER: Duration = Duration::from_mins(10);

#[tokio::test(flavor = "multi_thread")]
async fn requests_over_the_limit_are_refused_at_once() {
    let world = World::with(|settings| settings.http.requests_max = 1).await;
    let other = Connection::new(world.server.address);
    let place = other.enter(&world.server.http.gate).unwrap();
    let refused = world.get("/nothing", &Credential::None).await;
    assert_eq!(refused.refused(424, "temporarily_unavailable")["reason"], "overloaded");
    assert_eq!(refused.header("retry-after"), Some("1"));
    drop(place);
    world.get("/nothing", &Credential::None).await.refused(404, "not_found");
}

/// The number of refusals that the metrics show for a reason.
async fn refusals(world: &World, reason: &str) -> u64 {
    let (status, text) = send(HERE, world.server.admin_address, &get("/metrics")).await;
    assert_eq!(status, 200);
    let begin = format!("attache_refusals_total{{reason=\"{reason}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&begin)).map_or(0, |count| count.trim().parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_counted_by_their_reason() {
    let world = World::with(|settings| settings.http.requests_max = 1).await;
    for reason in api::error::REASONS {
        assert_eq!(refusals(&world, reason).await, 0, "{reason}");
    }
    world.get("/nothing", &Credential::None).await.refused(404, "not_found");
    world.get("/v1/spaces", &Credential::None).await.refused(401, "unauthorized");
    // A page is a refusal too.
    let page = world.request(Method::GET, "/nothing", &Credential::None).header("accept", "text/html");
    assert_eq!(world.send(page).await.status, 404);
    let other = Connection::new(world.server.address);
    let place = other.enter(&world.server.http.gate).unwrap();
    world.get("/nothing", &Credential::None).await.refused(424, "temporarily_unavailable");
    drop(place);
    let identity = json!({ "type": "service_auth", "login_hint": "ada@example.com" });
    let registered = world.post("/api/v1/agent-auth/identity", &Credential::None, &identity).await.expect(200);
    let polled = world.token_by_claim(registered["claim_token"].as_str().unwrap()).await;
    polled.refused(400, "authorization_pending");
    assert_eq!(send(HERE, world.server.address, "GET\r\n\r\n").await.0, 400);
    for (reason, count) in
        [("not_found", 2), ("unauthorized", 1), ("overloaded", 1), ("authorization_pending", 0), ("invalid_request", 1)]
    {
        assert_eq!(refusals(&world, reason).await, count, "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn awaited_bodies_do_not_count_as_requests_in_progress() {
    let world = World::with(|settings| {
        // More than two threads can have in progress, and far fewer than the number of pending bodies.
        settings.http.requests_max = 8;
        settings.http.body_rate_after = NEVER;
        settings.http.body_deadline = NEVER;
    })
    .await;
    let mut waiting = Vec::new();
    for from in [HERE, ELSEWHERE] {
        for _ in 0..20 {
            let mut stream = connect(from, world.server.address).await;
            stream.write_all(begun("/api/v1/mcp", 2).as_bytes()).await.unwrap();
            waiting.push(stream);
        }
    }
    for _ in 0..20 {
        world.get("/nothing", &Credential::None).await.refused(404, "not_found");
    }
    // A client that sends the rest gets a response.
    for mut stream in waiting {
        stream.write_all(b"}").await.unwrap();
        let (status, text) = response(&mut stream).await;
        assert!(status == 400 && text.contains("-32600"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_per_address_are_limited() {
    let world = World::with(|settings| {
        settings.http.bodies_per_address_max = 2;
        settings.http.body_rate_after = NEVER;
        settings.http.body_deadline = NEVER;
        settings.http.trusted_proxies = vec!["127.0.0.9/32".parse().unwrap()];
    })
    .await;
    let to = world.server.address;
    // Sends the first part of a body; returns the connection unless the request is refused.
    let begins = async |from, more: &str| {
        let mut stream = connect(from, to).await;
        let begun = begun("/api/v1/mcp", 2).replace("Content-Length", &format!("{more}Content-Length"));
        stream.write_all(begun.as_bytes()).await.unwrap();
        let answered = tokio::time::timeout(Duration::from_millis(500), response(&mut stream)).await;
        answered.map_err(|_| stream)
    };
    let mut waiting = Vec::new();
    let refused = loop {
        match begins(HERE, "").await {
            Ok(refused) => break refused,
            Err(stream) => waiting.push(stream),
        }
    };
    assert_eq!(waiting.len(), 2);
    let (status, text) = refused;
    assert!(status == 424 && text.contains("too_many_bodies") && text.contains("retry-after: 1"), "{text}");
    // Bodies that arrive with their heads do not count, and other addresses have their own limit.
    let whole = "POST /api/v1/mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
    assert_eq!(send(HERE, to, whole).await.0, 400);
    waiting.push(begins(ELSEWHERE, "").await.unwrap_err());
    // Behind a trusted proxy each client counts separately, and the proxy does not count.
    assert_eq!(begins(PROXY, "X-Forwarded-For: 127.0.0.1\r\n").await.unwrap().0, 424);
    for more in ["X-Forwarded-For: 192.0.2.1\r\n", "", "", ""] {
        waiting.push(begins(PROXY, more).await.unwrap_err());
    }
    for mut stream in waiting {
        stream.write_all(b"}").await.unwrap();
        assert_eq!(response(&mut stream).await.0, 400);
    }
    begins(HERE, "").await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_below_the_minimum_rate_is_refused_before_its_deadline() {
    let world = World::with(|settings| {
        settings.http.body_rate_after = Duration::from_millis(100);
        settings.http.body_deadline = NEVER;
    })
    .await;
    let (status, text) = send(HERE, world.server.address, &begun("/api/v1/mcp", 9999)).await;
    assert!(status == 424 && text.contains("body_too_slow"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_per_address_are_limited() {
    let world = World::with(|settings| {
        settings.http.connections_per_address_max = 2;
        settings.http.trusted_proxies = vec!["127.0.0.9/32".parse().unwrap()];
    })
    .await;
    let to = world.server.address;
    let nothing = get("/nothing");
    let mut open = Vec::new();
    for from in [HERE, HERE, PROXY, PROXY, PROXY] {
        let mut stream = connect(from, to).await;
        stream.write_all(nothing.as_bytes()).await.unwrap();
        assert_eq!(response(&mut stream).await.0, 404, "{from:?}");
        open.push(stream);
    }
    let mut refused = connect(HERE, to).await;
    let (status, text) = response(&mut refused).await;
    assert!(status == 424 && text.contains("too_many_connections"), "{text}");
    let body = text.split_once("\r\n\r\n").unwrap().1;
    assert_eq!(serde_json::from_str::<serde_json::Value>(body).unwrap()["error"], "temporarily_unavailable");
    assert_eq!(response(&mut refused).await, (0, String::new()), "and closed");
    assert_eq!(send(ELSEWHERE, to, &nothing).await.0, 404);
    drop(open);
    eventually("there is room again", async || (send(HERE, to, &nothing).await.0 == 404).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_nothing_is_disconnected() {
    let world = World::with(|settings| {
        settings.http.connections_max = 1;
        settings.http.head_deadline = NEVER;
        settings.http.write_deadline = Duration::from_millis(300);
    })
    .await;
    // More than the buffers of both sides hold, so that the server has to wait for the client.
    let mut greedy = connect(HERE, world.server.address).await;
    let many = get("/openapi.json").repeat(200);
    let asking = tokio::spawn(async move {
        // Ends when the connection does.
        let _ = greedy.write_all(many.as_bytes()).await;
        std::future::pending::<()>().await;
        drop(greedy);
    });
    // Closing the connection frees the only place.
    let honest = tokio::time::timeout(Duration::from_mins(1), world.get("/nothing", &Credential::None)).await;
    honest.expect("the place was never given back").refused(404, "not_found");
    asking.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_do_not_block_the_operators_listener() {
    let world = World::with(|settings| {
        settings.admin.connections_max = 4;
        settings.http.head_deadline = NEVER;
    })
    .await;
    let to = world.server.admin_address;
    let mut idle = Vec::new();
    for _ in 0..20 {
        let mut stream = connect(HERE, to).await;
        stream.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
        idle.push(stream);
    }
    for path in ["/healthz", "/readyz", "/metrics", "/actors"] {
        let asked = tokio::time::timeout(Duration::from_mins(1), send(HERE, to, &get(path))).await;
        let (status, _) = asked.expect("no response");
        assert_eq!(status, 200, "{path}");
    }
    // The oldest had to go.
    assert_eq!(response(&mut idle[0]).await, (0, String::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_with_too_large_a_content_length_is_refused_before_it_is_read() {
    let world = World::with(|settings| {
        settings.http.body_rate_after = NEVER;
        settings.http.body_deadline = NEVER;
        settings.knowledge.batch.body_deadline = NEVER;
    })
    .await;
    let to = world.server.address;
    for bytes in [1_048_577_u64, 99_999_999, u64::MAX / 4] {
        let head = format!("POST /api/v1/mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: {bytes}\r\n\r\n");
        let (status, text) = send(HERE, to, &head).await;
        assert!(status == 413 && text.contains("payload_too_large"), "{text}");
    }
    let (_, key) = world.librarian("ada@example.com").await;
    let Credential::Bearer(key) = key else { panic!("no key") };
    let most = world.server.app.settings.knowledge.batch.body_bytes_max;
    let head = format!(
        "POST /v1/batch-add HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Length: {}\r\n\r\n",
        most + 1
    );
    assert_eq!(send(HERE, to, &head).await.0, 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_client_that_still_sends_receives_the_response() {
    let world = World::on_sqlite().await;
    for _ in 0..20 {
        let huge = world.request(Method::POST, "/api/v1/machines", &Credential::None).body(vec![b'a'; 8 << 20]);
        world.send(huge).await.refused(413, "payload_too_large");
    }
}
