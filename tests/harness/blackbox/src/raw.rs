//! Requests byte by byte, from any address of the loopback network.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Connects from this address.
pub async fn connect(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((from, 0))).unwrap();
    socket.connect(to).await.unwrap()
}

/// Reads the next response: its status and its text, which is incomplete with status 0 if the connection ends before.
pub async fn response(stream: &mut TcpStream) -> (u16, String) {
    let mut text = Vec::new();
    loop {
        let whole = String::from_utf8_lossy(&text).into_owned();
        if let Some((head, body)) = whole.split_once("\r\n\r\n") {
            let length = head
                .to_lowercase()
                .split("content-length: ")
                .nth(1)
                .map_or(0, |rest| rest.split("\r\n").next().unwrap().parse::<usize>().unwrap());
            if body.len() >= length {
                return (head.split(' ').nth(1).unwrap().parse().unwrap(), whole);
            }
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece).await {
            Ok(read @ 1..) => text.extend_from_slice(&piece[..read]),
            Ok(0) | Err(_) => return (0, whole),
        }
    }
}

/// Sends this text on a new connection and reads the response as [`response`] does.
pub async fn send(from: [u8; 4], to: SocketAddr, text: &str) -> (u16, String) {
    let mut stream = connect(from, to).await;
    stream.write_all(text.as_bytes()).await.unwrap();
    response(&mut stream).await
}

/// The text of a `GET` request.
pub fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// The text of a `POST` request with a `Content-Length` of `bytes`, of which it contains only one.
pub fn begun(path: &str, bytes: usize) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {bytes}\r\n\r\n{{")
}
