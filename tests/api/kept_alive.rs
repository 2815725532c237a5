//! A refused request does not close the connection, unless the response contains `Connection: close`.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use blackbox::eventually;
use blackbox::raw::{begun, connect, get, response, send};
use blackbox::world::World;

const HERE: [u8; 4] = [127, 0, 0, 1];

/// A deadline that none of these tests waits for.
const NEVER: Duration = Duration::from_mins(10);

/// Requests that are refused before their body is read, each with its status.
const REFUSED: [(&str, u16); 5] = [
    ("POST /api/v1/events", 401),
    ("POST /nothing", 404),
    ("DELETE /api/v1/events", 405),
    ("POST /v1/batch-add", 401),
    ("POST /api/v1/agent-auth/claim/complete", 401),
];

async fn connected(to: SocketAddr) -> TcpStream {
    let stream = connect(HERE, to).await;
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends this text; returns the status of the response and whether the connection ends with it.
async fn exchange(stream: &mut TcpStream, pieces: &[&[u8]]) -> (u16, bool) {
    for piece in pieces {
        stream.write_all(piece).await.unwrap();
    }
    let (status, text) = response(stream).await;
    (status, text.to_lowercase().contains("connection: close"))
}

fn head(line: &str, more: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{more}\r\n\r\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_after_a_refused_one_is_answered() {
    let world = World::with(|settings| settings.http.unread_deadline = NEVER).await;
    let body = vec![b' '; 20_000];
    for (line, status) in REFUSED {
        let mut stream = connected(world.server.address).await;
        let sized = head(line, &format!("Content-Length: {}", body.len()));
        let chunked = head(line, "Transfer-Encoding: chunked");
        let chunks = [b"4e20\r\n", &body[..], b"\r\n0\r\n\r\n"].concat();
        for nth in 0..20 {
            let one = exchange(&mut stream, &[sized.as_bytes(), &body]).await;
            assert_eq!(one, (status, false), "{line}, request {nth}");
            let one = exchange(&mut stream, &[chunked.as_bytes(), &chunks]).await;
            assert_eq!(one, (status, false), "{line}, chunked request {nth}");
        }
    }
}

/// `http.client` of Python's standard library sends a body after its head, and fails when the connection ends under its next request.
const REFUSED_IN_PYTHON: &str = r#"
import http.client, sys
connection = http.client.HTTPConnection(sys.argv[1])
connection.connect()
kept = connection.sock
for nth in range(200):
    connection.request("POST", "/api/v1/events", body=b"{}" * 1000, headers={"Content-Type": "application/json"})
    response = connection.getresponse()
    response.read()
    assert (response.status, connection.sock is kept) == (401, True), (nth, response.status)
"#;

#[tokio::test(flavor = "multi_thread")]
async fn every_refused_request_of_the_python_library_is_answered() {
    let Some(python) = harness::python::with(harness::python::Packages::Client) else { return };
    let world = World::with(|settings| settings.http.unread_deadline = NEVER).await;
    let mut command = Command::new(python);
    command.arg("-c").arg(REFUSED_IN_PYTHON).arg(world.server.address.to_string());
    let done = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_ends_its_connection_says_so() {
    let world = World::with(|settings| {
        settings.http.unread_bytes_max = 1000;
        settings.http.unread_deadline = Duration::from_millis(20);
    })
    .await;
    let large = [head("POST /nothing", "Content-Length: 1001"), "x".repeat(1001)].concat();
    let chunked =
        [head("POST /nothing", "Transfer-Encoding: chunked"), format!("3e9\r\n{}\r\n", "x".repeat(1001))].concat();
    let awaited = head("POST /nothing", "Expect: 100-continue\r\nContent-Length: 2");
    for text in [large, chunked, awaited, begun("/nothing", 2)] {
        let mut stream = connected(world.server.address).await;
        assert_eq!(exchange(&mut stream, &[text.as_bytes()]).await, (404, true), "{text}");
        assert_eq!(stream.read(&mut [0; 9]).await.unwrap(), 0, "it does not end: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operators_listener_keeps_connections_too() {
    let world = World::with(|settings| settings.http.unread_deadline = NEVER).await;
    let mut stream = connected(world.server.admin_address).await;
    let head = head("POST /readyz", "Content-Length: 2");
    for _ in 0..20 {
        assert_eq!(exchange(&mut stream, &[head.as_bytes(), b"{}"]).await, (405, false));
    }
    assert_eq!(exchange(&mut stream, &[get("/healthz").as_bytes()]).await, (200, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_chunks_are_the_fault_of_the_request() {
    let world = World::on_sqlite().await;
    let to = world.server.address;
    for chunks in ["xyz\r\n", "2\r\n{}0\r\n\r\n", "FFFFFFFFFFFFFFFFF\r\n", "2\n{}\r\n0\r\n\r\n", "2 3\r\n{}\r\n"] {
        let sent =
            |path: &str| [head(&format!("POST {path}"), "Transfer-Encoding: chunked"), chunks.to_owned()].concat();
        let (status, text) = send(HERE, to, &sent("/api/v1/agent-auth/identity")).await;
        assert!(status == 400 && text.contains("invalid_request"), "{chunks:?}: {text}");
        assert!(text.contains("connection: close"), "the next request cannot be found: {text}");
        // The specification has no 400 for events.
        let machine = world.machine().await;
        let events =
            sent("/api/v1/events").replace("Host:", &format!("Authorization: Bearer {}\r\nHost:", machine.secret));
        let (status, text) = send(HERE, to, &events).await;
        assert!(status == 424 && text.contains("body_unreadable"), "{chunks:?}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_encoding_is_chunked_once() {
    let world = World::on_sqlite().await;
    for encodings in ["chunked\r\nTransfer-Encoding: chunked", "chunked, chunked", "gzip, chunked"] {
        let text =
            [head("POST /api/v1/mcp", &format!("Transfer-Encoding: {encodings}")), "0\r\n\r\n".to_owned()].concat();
        let (status, text) = send(HERE, world.server.address, &text).await;
        assert!(status == 400 && text.contains("Transfer-Encoding"), "{encodings}: {text}");
    }
}

/// A head that is not complete, and has this many bytes.
fn unfinished(bytes: usize) -> String {
    let begin = "GET /llms.txt HTTP/1.1\r\nHost: localhost\r\nX-Long: ";
    format!("{begin}{}", "x".repeat(bytes - begin.len()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_is_too_long_is_refused_in_json() {
    let world = World::with(|settings| settings.http.head_bytes_max = 10_000).await;
    let to = world.server.address;
    let fits = unfinished(9_000) + "\r\n\r\n";
    let mut stream = connected(to).await;
    for _ in 0..3 {
        assert_eq!(exchange(&mut stream, &[fits.as_bytes()]).await, (200, false));
    }
    for text in [unfinished(20_000), unfinished(100_000) + "\r\n\r\n", unfinished(2_000_000)] {
        let mut stream = connected(to).await;
        // The server ends the connection while the client sends.
        let _ = stream.write_all(text.as_bytes()).await;
        let (status, text) = response(&mut stream).await;
        assert_eq!(status, 431, "{text}");
        let body: serde_json::Value = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(body, serde_json::json!({ "error": "head_too_large", "bytes_max": 10_000 }));
        assert!(text.contains("connection: close"), "{text}");
    }
    for text in [
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "\0\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: a\r\n\r\n",
    ] {
        let (status, answer) = send(HERE, to, text).await;
        assert!(status == 400 && answer.contains("\"invalid_request\""), "{text:?}: {answer}");
    }
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(200));
    let (status, answer) = send(HERE, to, &many).await;
    assert!(status == 431 && answer.contains("head_too_large"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_heads_share_the_memory_of_bodies() {
    let world = World::with(|settings| {
        settings.http.bodies_bytes_max = 100_000;
        settings.http.head_deadline = NEVER;
    })
    .await;
    let to = world.server.address;
    let mut open = Vec::new();
    let refused = loop {
        let mut stream = connected(to).await;
        stream.write_all(unfinished(30_000).as_bytes()).await.unwrap();
        match tokio::time::timeout(Duration::from_millis(500), response(&mut stream)).await {
            Ok(refused) => break refused,
            Err(_) => open.push(stream),
        }
        assert!(open.len() < 10, "nothing bounds them");
    };
    assert!(refused.0 == 424 && refused.1.contains("overloaded"), "{refused:?}");
    // Heads of a usual size do not use this memory, and accepted heads can finish.
    assert_eq!(send(HERE, to, &get("/llms.txt")).await.0, 200);
    for stream in &mut open {
        assert_eq!(exchange(stream, &[b"\r\n\r\n"]).await, (200, false));
    }
    drop(open);
    let long = unfinished(30_000) + "\r\n\r\n";
    eventually("the memory is free again", async || (send(HERE, to, &long).await.0 == 200).then_some(())).await;
}
