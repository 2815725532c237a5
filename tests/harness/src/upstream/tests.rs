use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

const EVENT: &str = "019b76da-a800-7a67-8a14-94a3f41b0634";

/// An event as the product would forward it.
fn delivery(payload: &str) -> Vec<u8> {
    let seal = format!("{payload:0>64}");
    let body = json!({
        "event_id": EVENT,
        "scope": {"machine_id": "m", "user_id": "u"},
        "hash_chain": {"prev": "GENESIS", "self": seal},
    })
    .to_string();
    format!(
        "POST /v1/events HTTP/1.1\r\nHost: upstream\r\nAuthorization: Bearer {TOKEN}\r\nIdempotency-Key: {EVENT}\r\n\
         Attache-Identity: u\r\nAttache-Machine: m\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Sends on a new connection, closes the sending half, and returns all received bytes.
async fn send(upstream: &Upstream, request: &[u8]) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(upstream.address).await?;
    stream.write_all(request).await?;
    stream.shutdown().await?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await?;
    Ok(String::from_utf8_lossy(&response).into_owned())
}

#[tokio::test]
async fn the_same_event_is_accepted_once_and_keeps_its_receipt() {
    let upstream = Upstream::start().await;
    let first = send(&upstream, &delivery("a")).await.unwrap();
    assert!(first.starts_with("HTTP/1.1 200 "), "{first}");
    assert_eq!(send(&upstream, &delivery("a")).await.unwrap(), first);
    assert!(send(&upstream, &delivery("b")).await.unwrap().contains("event_id_conflict"));

    let taken = upstream.taken();
    assert_eq!(taken[EVENT].deliveries, 2);
    assert!(first.contains(&taken[EVENT].receipt_id));
    assert!(delivery("a").ends_with(&taken[EVENT].body));
    assert_eq!(upstream.requests().len(), 3);
}

#[tokio::test]
async fn scripts_run_in_order_and_only_some_accept_the_event() {
    let upstream = Upstream::start().await;
    upstream.next(Script::broken(503));
    upstream.next(Script::too_many_requests(7));
    upstream.next(Script::reply(Reply::new(418).header("Content-Type", "application/x-tea").body(vec![0, 255, b'\r'])));
    upstream.for_event(EVENT, Script::garbage());

    assert!(send(&upstream, &delivery("a")).await.unwrap().contains("It works!"));
    assert!(send(&upstream, &delivery("a")).await.unwrap().starts_with("HTTP/1.1 503 "));
    assert!(send(&upstream, &delivery("a")).await.unwrap().contains("\r\nRetry-After: 7\r\n"));
    let tea = send(&upstream, &delivery("a")).await.unwrap();
    assert!(tea.starts_with("HTTP/1.1 418 ") && tea.contains("Content-Length: 3\r\n\r\n\0"), "{tea}");
    assert!(upstream.taken().is_empty());

    upstream.next(Script::broken(500).having_stored());
    assert!(send(&upstream, &delivery("a")).await.unwrap().starts_with("HTTP/1.1 500 "));
    assert_eq!(upstream.taken().len(), 1);
}

#[tokio::test]
async fn it_fails_below_http_too() {
    let upstream = Upstream::start().await;
    upstream.next(Script::reset());
    assert_eq!(send(&upstream, &delivery("a")).await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);

    upstream.next(Script::twice());
    let twice = send(&upstream, &delivery("a")).await.unwrap();
    assert_eq!(twice.matches("HTTP/1.1 200").count(), 2);

    upstream.next(Script::huge(300_000));
    let huge = send(&upstream, &delivery("a")).await.unwrap();
    assert_eq!(huge.len() - huge.find("\r\n\r\n").unwrap() - 4, 300_000);

    upstream.next(Script::drip(Duration::from_micros(10)));
    assert!(send(&upstream, &delivery("a")).await.unwrap().contains("receipt_id"));
}

#[tokio::test]
async fn a_hanging_or_late_response_outlasts_its_client() {
    let upstream = Upstream::start().await;
    upstream.next(Script::hang());
    upstream.next(Script::late(Duration::from_hours(1)));
    for sent in 1..=2 {
        let mut stream = TcpStream::connect(upstream.address).await.unwrap();
        stream.write_all(&delivery("a")).await.unwrap();
        upstream.wait_for_requests(sent).await;
    }
    assert_eq!(upstream.taken()[EVENT].deliveries, 1, "the late one has stored, the hanging one has not");
}

#[tokio::test]
async fn down_it_refuses_and_back_it_remembers() {
    let upstream = Upstream::start().await;
    send(&upstream, &delivery("a")).await.unwrap();
    upstream.go_down().await;
    while TcpStream::connect(upstream.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    upstream.come_back().await;
    send(&upstream, &delivery("a")).await.unwrap();
    assert_eq!(upstream.taken()[EVENT].deliveries, 2);
}

#[tokio::test]
async fn requests_outside_the_contract_are_surprises() {
    let plain = String::from_utf8(delivery("a")).unwrap();
    for (from, to, surprise) in [
        ("POST /v1/events", "POST /v2/events", "not a route"),
        ("Idempotency-Key: ", "X-Key: ", "idempotency-key"),
        (TOKEN, "another-token", "bearer"),
        ("Attache-Machine: m", "Attache-Machine: n", "attache-machine"),
        ("Host: upstream", "Host: upstream\r\nCookie: a=b", "cookie"),
        ("Host: upstream", "Host: upstream\r\nHost: other", "sent twice"),
        ("Content-Length: ", "Transfer-Encoding: chunked\r\nX: ", "unsaid length"),
        ("HTTP/1.1", "HTTP/1.0", "not HTTP/1.1"),
        ("POST /v1/events HTTP/1.1", "nonsense", "not HTTP"),
        ("{\"event_id\"", "]\"event_id\"", "not JSON"),
    ] {
        let upstream = Upstream::start().await;
        let request = plain.replacen(from, to, 1);
        assert_ne!(request, plain);
        // An unreadable request gets no response, so the connection may end with a reset.
        drop(send(&upstream, request.as_bytes()).await);
        let surprises = upstream.take_surprises().join("\n");
        assert!(surprises.contains(surprise), "{to}: {surprises}");
    }
}

#[tokio::test]
#[should_panic(expected = "never asked for")]
async fn an_unused_script_fails_the_test() {
    let upstream = Upstream::start().await;
    upstream.next(Script::reset());
}
