//! The listener: one thread with many streams of server-sent events, each joined again at its end.
//!
//! Counts messages at empty lines and parses nothing else, because the listener shares the cores with the server.

use std::cell::{Cell, RefCell};
use std::io::Read;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio::time::timeout_at;

use crate::client::STREAM_END;
use crate::options::Result;
use crate::outcome::{Answers, Outcome, nanoseconds};
use crate::usage::usage;

/// Reads the request, opens the streams, and prints the outcome: messages under status 200, with the latencies of whole
/// streams.
pub fn from_standard_input(address: SocketAddr, streams: usize, length: Duration) -> Result<()> {
    let mut request = Vec::new();
    std::io::stdin().lock().read_to_end(&mut request)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, run(address, request, streams, length))?.print()
}

/// State shared by the streams.
struct Shared {
    request: Vec<u8>,
    end: Instant,
    messages: Cell<u64>,
    latencies: RefCell<Vec<u64>>,
    first_failure: RefCell<Option<String>>,
    failures: Cell<u64>,
}

async fn run(address: SocketAddr, request: Vec<u8>, streams: usize, length: Duration) -> Result<Outcome> {
    // Connections are opened before the measurement.
    let mut connections = Vec::with_capacity(streams);
    for _ in 0..streams {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        connections.push(stream);
    }
    let begin = Instant::now();
    let board = Rc::new(Shared {
        request,
        end: begin + length,
        messages: Cell::new(0),
        latencies: RefCell::default(),
        first_failure: RefCell::default(),
        failures: Cell::new(0),
    });
    let tasks: Vec<_> = connections
        .into_iter()
        .map(|stream| {
            let board = Rc::clone(&board);
            tokio::task::spawn_local(async move {
                let mut whole = 0;
                if let Err(error) = board.hear(stream, &mut whole).await {
                    board.failures.set(board.failures.get() + 1);
                    board.first_failure.borrow_mut().get_or_insert_with(|| error.to_string());
                }
                whole
            })
        })
        .collect();
    let mut lanes_done = Vec::with_capacity(streams);
    for task in tasks {
        lanes_done.push(task.await?);
    }
    let seconds = begin.elapsed().as_secs_f64();
    let heard = Answers { count: board.messages.get(), ..Answers::of(board.latencies.take(), String::new()) };
    let first_failure = board.first_failure.take();
    let outcome = Outcome::of(200, heard, seconds, usage(std::process::id())?);
    Ok(Outcome { lanes_done, failures: board.failures.get(), first_failure, ..outcome })
}

impl Shared {
    /// Reads a stream repeatedly until the time has passed; counts complete streams.
    async fn hear(&self, mut stream: TcpStream, whole: &mut usize) -> std::io::Result<()> {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let joined = Instant::now();
            stream.write_all(&self.request).await?;
            let mut mark = StreamPosition::default();
            while !mark.ended {
                let Ok(read) = timeout_at(self.end.into(), stream.read(&mut buffer)).await else { return Ok(()) };
                let bytes = &buffer[..read?];
                if bytes.is_empty() {
                    return Err(std::io::ErrorKind::UnexpectedEof.into());
                }
                if !mark.begun && !bytes.starts_with(b"HTTP/1.1 200") {
                    return Err(std::io::Error::other(String::from_utf8_lossy(bytes).into_owned()));
                }
                self.messages.set(self.messages.get() + mark.count(bytes));
            }
            self.latencies.borrow_mut().push(nanoseconds(joined.elapsed()));
            *whole += 1;
        }
    }
}

/// Progress within a stream.
#[derive(Debug, Default)]
struct StreamPosition {
    begun: bool,
    /// Whether the last byte ended a line.
    at_line: bool,
    /// Number of last bytes that match a prefix of the stream's end.
    of_end: usize,
    ended: bool,
}

impl StreamPosition {
    /// Processes bytes, and returns the number of complete messages.
    fn count(&mut self, bytes: &[u8]) -> u64 {
        self.begun = true;
        let mut messages = 0;
        for &byte in bytes {
            let line = byte == b'\n';
            messages += u64::from(line && self.at_line);
            self.at_line = line;
            if byte == STREAM_END[self.of_end] {
                self.of_end += 1;
                if self.of_end == STREAM_END.len() {
                    self.ended = true;
                    self.of_end = 0;
                }
            } else {
                // The end starts with a line break, which can also be the line break in its middle.
                self.of_end = usize::from(byte == STREAM_END[0]);
            }
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_the_end_are_seen_wherever_the_bytes_are_cut() {
        let text = b"HTTP/1.1 200 OK\r\n\r\nd\r\nid: 1\ndata: a\n\n\r\nd\r\nid: 2\ndata: b\n\n\r\n0\r\n\r\n";
        for cut in 1..text.len() - 1 {
            let mut mark = StreamPosition::default();
            let first = mark.count(&text[..cut]);
            assert!(!mark.ended, "{cut}");
            assert_eq!(first + mark.count(&text[cut..]), 2, "{cut}");
            assert!(mark.ended, "{cut}");
        }
    }
}
