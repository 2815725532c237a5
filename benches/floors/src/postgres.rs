//! The floor of PostgreSQL: how fast records become durable in a table with one index when their senders share a commit.
//!
//! Each group is one `COPY … FROM STDIN` in the binary format on one connection, in one write and with one answer. The protocol is written
//! out here, so that no database driver is measured. The server has to trust the user: this client knows no password.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::disk::{Measured, RECORD_BYTES};

/// Most records that share a commit.
const GROUP_MAX: usize = 1024;
/// Version 3.0 of the protocol.
const PROTOCOL: i32 = 196_608;
/// What begins data of `COPY` in the binary format: signature, flags, length of the extension.
const COPY_HEAD: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// What ends it: a row of −1 columns.
const COPY_END: &[u8] = b"\xff\xff";

const TABLE: &str = "DROP TABLE IF EXISTS floor; CREATE TABLE floor (id UUID PRIMARY KEY, record BYTEA NOT NULL)";
const COPY: &str = "COPY floor (id, record) FROM STDIN (FORMAT binary)";

/// A record: its number, its sender, and where the sender waits until it is durable.
type Append = (u64, u64, oneshot::Sender<()>);

/// A connection to a database with the empty table.
#[derive(Debug)]
pub struct Postgres {
    stream: TcpStream,
}

impl Postgres {
    /// Connects and makes the table; one that is there is dropped.
    pub fn prepare(address: SocketAddr, user: &str, database: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut postgres = Self { stream };
        let parameters = format!("user\0{user}\0database\0{database}\0\0");
        let mut start = length(8 + parameters.len())?.to_vec();
        start.extend(PROTOCOL.to_be_bytes());
        start.extend(parameters.as_bytes());
        postgres.exchange(&start)?;
        let mut table = Vec::new();
        message(&mut table, b'Q', &[TABLE.as_bytes(), b"\0"])?;
        postgres.exchange(&table)?;
        Ok(postgres)
    }

    /// Appends from `senders` tasks at once, each of which waits for its record to be durable before it sends the next.
    pub async fn measure(self, senders: usize, length: Duration) -> io::Result<Measured> {
        let (queue, records) = mpsc::channel(senders.max(1));
        let writer = thread::spawn(move || self.write(records));
        let begin = Instant::now();
        let mut tasks = JoinSet::new();
        for sender in 0..senders {
            tasks.spawn(append(queue.clone(), sender as u64, begin + length));
        }
        drop(queue);
        let mut measured = Measured { latencies: Vec::new(), by_sender: Vec::new(), took: Duration::ZERO };
        while let Some(latencies) = tasks.join_next().await {
            let latencies = latencies?;
            measured.by_sender.push(latencies.len());
            measured.latencies.extend(latencies);
        }
        measured.took = begin.elapsed();
        writer.join().map_err(|_| io::Error::other("the writer panicked"))??;
        Ok(measured)
    }

    /// The one writer: the records that queued up during a commit share the next.
    fn write(mut self, mut records: mpsc::Receiver<Append>) -> io::Result<()> {
        let mut group: Vec<Append> = Vec::with_capacity(GROUP_MAX);
        let (mut rows, mut bytes) = (Vec::new(), Vec::new());
        let record = [7; RECORD_BYTES];
        while records.blocking_recv_many(&mut group, GROUP_MAX) > 0 {
            rows.clear();
            for (number, sender, _) in &group {
                rows.extend(2_i16.to_be_bytes());
                rows.extend(16_i32.to_be_bytes());
                rows.extend(number.to_be_bytes());
                rows.extend(sender.to_be_bytes());
                rows.extend(i32::try_from(RECORD_BYTES).map_err(io::Error::other)?.to_be_bytes());
                rows.extend(record);
            }
            bytes.clear();
            message(&mut bytes, b'Q', &[COPY.as_bytes(), b"\0"])?;
            message(&mut bytes, b'd', &[COPY_HEAD, &rows, COPY_END])?;
            message(&mut bytes, b'c', &[])?;
            self.exchange(&bytes)?;
            for (.., durable) in group.drain(..) {
                // A sender that has ended does not wait.
                let _ = durable.send(());
            }
        }
        Ok(())
    }

    /// Sends messages and reads the answers until the server is ready for the next.
    fn exchange(&mut self, messages: &[u8]) -> io::Result<()> {
        self.stream.write_all(messages)?;
        let mut failed = None;
        loop {
            let mut head = [0; 5];
            self.stream.read_exact(&mut head)?;
            let [kind, length @ ..] = head;
            let mut body = vec![0; usize::try_from(i32::from_be_bytes(length) - 4).map_err(io::Error::other)?];
            self.stream.read_exact(&mut body)?;
            match kind {
                b'Z' => return failed.map_or(Ok(()), |text: String| Err(io::Error::other(text))),
                b'R' if body[..4] != [0; 4] => return Err(io::Error::other("the server asks for a password")),
                // At the start, nothing follows an error.
                b'E' if messages[0] == 0 => return Err(io::Error::other(words(&body))),
                b'E' => failed = Some(words(&body)),
                _ => {}
            }
        }
    }
}

/// The fields of an error, which end with zeros.
fn words(body: &[u8]) -> String {
    String::from_utf8_lossy(body).replace('\0', " ")
}

/// A length that counts itself, as the protocol has it.
fn length(bytes: usize) -> io::Result<[u8; 4]> {
    Ok(i32::try_from(bytes).map_err(io::Error::other)?.to_be_bytes())
}

fn message(to: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) -> io::Result<()> {
    to.push(kind);
    to.extend(length(4 + parts.iter().map(|part| part.len()).sum::<usize>())?);
    for part in parts {
        to.extend_from_slice(part);
    }
    Ok(())
}

/// One sender; returns the latencies of its records.
async fn append(queue: mpsc::Sender<Append>, sender: u64, end: Instant) -> Vec<u64> {
    let mut latencies = Vec::new();
    for number in 0_u64.. {
        let before = Instant::now();
        if before >= end {
            break;
        }
        let (durable, wait) = oneshot::channel();
        if queue.send((number, sender, durable)).await.is_err() || wait.await.is_err() {
            break;
        }
        latencies.push(u64::try_from(before.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    latencies
}
