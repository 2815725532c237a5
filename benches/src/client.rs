//! A blocking client for requests that are not measured.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use crate::load::parse_head;
use crate::options::Result;

/// A keep-alive connection.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    stream: TcpStream,
}

/// A complete response.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub body: Bytes,
}

impl Client {
    /// Connects to a server.
    pub fn new(address: SocketAddr) -> Result<Self> {
        Ok(Self { address, stream: connect(address)? })
    }

    /// Sends a request that was rendered by [`plan::request`](crate::plan::request).
    pub fn send(&mut self, request: &[u8]) -> Result<Answer> {
        self.stream.write_all(request)?;
        let mut bytes = Vec::new();
        let mut chunk = [0; 16 * 1024];
        loop {
            let count = self.stream.read(&mut chunk)?;
            if count == 0 {
                return Err("the server hung up".into());
            }
            bytes.extend_from_slice(&chunk[..count]);
            if let Some(head) = parse_head(&bytes)?
                && head.end(&bytes)?.is_some()
            {
                if head.close {
                    self.stream = connect(self.address)?;
                }
                return Ok(Answer { status: head.status, body: Bytes::from(bytes).slice(head.length..) });
            }
        }
    }
}

impl Answer {
    /// The body as JSON; an error if the status differs.
    pub fn json(&self, status: u16) -> Result<Value> {
        if self.status != status {
            return Err(
                format!("expected {status}, got {} {}", self.status, String::from_utf8_lossy(&self.body)).into()
            );
        }
        Ok(serde_json::from_slice(&self.body)?)
    }
}

/// Sends a request for a stream of server-sent events, and reads it to its end: the messages with their ids.
pub fn hear(address: SocketAddr, request: &[u8]) -> Result<Vec<(String, String)>> {
    let mut stream = connect(address)?;
    stream.write_all(request)?;
    let (mut bytes, mut chunk) = (Vec::new(), [0; 16 * 1024]);
    while !bytes.ends_with(STREAM_END) {
        let count = stream.read(&mut chunk)?;
        if count == 0 {
            return Err(format!("no whole stream: {}", String::from_utf8_lossy(&bytes)).into());
        }
        bytes.extend_from_slice(&chunk[..count]);
        if bytes.len() == count && !bytes.starts_with(b"HTTP/1.1 200") {
            return Err(format!("no stream: {}", String::from_utf8_lossy(&bytes)).into());
        }
    }
    // Messages are short lines, so each chunk contains complete ones.
    let text = String::from_utf8(bytes)?;
    let ids = text.lines().filter_map(|line| line.strip_prefix("id: "));
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    Ok(ids.map(str::to_owned).zip(data.map(str::to_owned)).collect())
}

/// End of a chunked response.
pub const STREAM_END: &[u8] = b"\r\n0\r\n\r\n";

/// Sends requests over several connections at once; returns the responses in the order of the requests.
pub fn send_all(address: SocketAddr, requests: &[Bytes], connections: usize) -> Result<Vec<Answer>> {
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(vec![None; requests.len()]);
    let work = || -> Result<()> {
        let mut client = Client::new(address)?;
        while let Some((place, request)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|place| Some((place, requests.get(place)?)))
        {
            let answer = client.send(request)?;
            answers.lock().map_err(|_| "a sender panicked")?[place] = Some(answer);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let senders: Vec<_> = (0..connections).map(|_| scope.spawn(work)).collect();
        senders.into_iter().try_for_each(|sender| sender.join().map_err(|_| "a sender panicked")?)
    })?;
    let answers = answers.into_inner().map_err(|_| "a sender panicked")?;
    answers.into_iter().collect::<Option<Vec<_>>>().ok_or_else(|| "a request was not sent".into())
}

fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    Ok(stream)
}
