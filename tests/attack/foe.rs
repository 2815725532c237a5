//! The attackers. Each runs until it is stopped, and reconnects as soon as the server has closed a connection.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use blackbox::raw::{begun, get};

/// The source address of attacks.
const FOE: [u8; 4] = [127, 0, 0, 66];

/// Source addresses of an attack from many, in the same network.
const FOES: u8 = 16;

/// Connections of an attack: more than the server has places for requests.
const CONNECTIONS: usize = 1100;

/// Clients that send all the time.
const SENDERS: usize = 64;

/// Time between two new connections.
const PAUSE: Duration = Duration::from_millis(2);

async fn connected(to: SocketAddr) -> Option<TcpStream> {
    connected_from(FOE, to).await
}

async fn connected_from(from: [u8; 4], to: SocketAddr) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().ok()?;
    socket.bind(SocketAddr::from((from, 0))).ok()?;
    socket.connect(to).await.ok()
}

/// Keeps this number of connections open; sends the text on each and reads no response.
async fn held(to: SocketAddr, connections: usize, text: String) {
    held_from(FOE, to, connections, text).await;
}

async fn held_from(from: [u8; 4], to: SocketAddr, connections: usize, text: String) {
    let mut held: Vec<TcpStream> = Vec::new();
    loop {
        held.retain(is_open);
        if held.len() < connections
            && let Some(stream) = connected_from(from, to).await
        {
            // Write only until the socket buffers are full: the rest would have to wait for the server.
            let _ = stream.try_write(text.as_bytes());
            held.push(stream);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn is_open(stream: &TcpStream) -> bool {
    // The server answers before it closes.
    match stream.try_read(&mut [0; 512]) {
        Ok(read) => read > 0,
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    }
}

pub async fn half_sent_bodies(to: SocketAddr) {
    held(to, CONNECTIONS, begun("/api/v1/mcp", 9999)).await;
}

pub async fn nearly_whole_bodies(to: SocketAddr) {
    let mut text = begun("/api/v1/mcp", 900_000);
    text.push_str(&"x".repeat(899_000));
    held(to, CONNECTIONS, text).await;
}

pub async fn half_sent_heads(to: SocketAddr) {
    held(to, CONNECTIONS, "GET /llms.txt HTTP/1.1\r\nHost: loc".to_owned()).await;
}

/// Incomplete heads of this number of bytes, from many addresses, each with nearly its maximum number of connections.
pub async fn long_heads(to: SocketAddr, bytes: usize) {
    let head = format!("GET /llms.txt HTTP/1.1\r\nHost: localhost\r\nX-Long: {}", "x".repeat(bytes));
    let mut foes = tokio::task::JoinSet::new();
    for nth in 0..FOES {
        foes.spawn(held_from([127, 0, 2, nth + 1], to, 250, head.clone()));
    }
    foes.join_all().await;
}

pub async fn slow_readers(to: SocketAddr) {
    let many = get("/openapi.json").repeat(200);
    let mut held: Vec<TcpStream> = Vec::new();
    loop {
        if held.len() < CONNECTIONS
            && let Some(stream) = connected(to).await
        {
            let _ = stream.try_write(many.as_bytes());
            held.push(stream);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Sends one request after the other on many connections, each as soon as the one before is answered.
pub async fn flood(to: SocketAddr, request: String) {
    let mut senders = tokio::task::JoinSet::new();
    for _ in 0..SENDERS {
        let request = request.clone();
        senders.spawn(async move {
            loop {
                match connected(to).await {
                    Some(stream) => send_all(stream, &request).await,
                    None => tokio::time::sleep(PAUSE).await,
                }
            }
        });
    }
    senders.join_all().await;
}

async fn send_all(mut stream: TcpStream, request: &str) {
    let mut response = vec![0; 16 * 1024];
    while stream.write_all(request.as_bytes()).await.is_ok() {
        if !stream.read(&mut response).await.is_ok_and(|read| read > 0) {
            return;
        }
    }
}
