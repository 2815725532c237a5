//! The load generator: one thread, one task per connection, bytes that were rendered before.
//!
//! It has to be lean because it shares the cores with what it measures: no request is built, no header map is filled, a
//! response costs one pass of `httparse` over its head.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use crate::Result;
use crate::outcome::{Answers, Outcome, nanoseconds};
use crate::plan::{Pace, Plan};
use crate::process;

/// After so many broken connections the run is no measurement any more.
const FAILURES_MAX: u64 = 100;
/// How long after its end a run waits for answers that are still out.
const GRACE: Duration = Duration::from_secs(15);
const SAMPLE_BYTES_MAX: usize = 200;

/// Reads the plan, runs it, prints the outcome.
pub fn from_standard_input(address: SocketAddr) -> Result<()> {
    let plan = Plan::read(std::io::BufReader::new(std::io::stdin().lock()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = LocalSet::new().block_on(&runtime, run(address, plan))?;
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

/// What the lanes share.
struct Board {
    address: SocketAddr,
    pace: Pace,
    lanes: usize,
    begin: Instant,
    measure_from: Instant,
    end: Instant,
    over: Cell<bool>,
    total: Cell<u64>,
    failures: Cell<u64>,
    first_failure: RefCell<Option<String>>,
    late: Cell<u64>,
    /// Latencies in nanoseconds and the first body, by status; a handful of statuses, so a list is fastest.
    statuses: RefCell<Vec<(u16, Vec<u64>, String)>>,
}

async fn run(address: SocketAddr, plan: Plan) -> Result<Outcome> {
    let Plan { pace, lanes } = plan;
    // Connections are made before the clock starts.
    let mut streams = Vec::with_capacity(lanes.len());
    for _ in &lanes {
        streams.push(connect(address).await?);
    }
    let begin = Instant::now();
    let measure_from = begin + Duration::from_secs_f64(pace.warm_up_seconds);
    let board = Rc::new(Board {
        address,
        lanes: lanes.len(),
        begin,
        measure_from,
        end: measure_from + Duration::from_secs_f64(pace.seconds),
        pace,
        over: Cell::new(false),
        total: Cell::new(0),
        failures: Cell::new(0),
        first_failure: RefCell::default(),
        late: Cell::new(0),
        statuses: RefCell::default(),
    });
    let patience = board.end - begin + GRACE;
    let tasks: Vec<_> = lanes
        .into_iter()
        .zip(streams)
        .enumerate()
        .map(|(place, (requests, stream))| tokio::task::spawn_local(lane(Rc::clone(&board), place, requests, stream)))
        .collect();
    let mut lanes_done = Vec::with_capacity(tasks.len());
    for task in tasks {
        let left = patience.saturating_sub(begin.elapsed());
        lanes_done.push(tokio::time::timeout(left, task).await.map_err(|_| "answers are still out after the grace")??);
    }
    board.outcome(lanes_done)
}

/// One connection; returns how many of its requests are done.
async fn lane(board: Rc<Board>, place: usize, requests: Vec<Bytes>, mut stream: TcpStream) -> usize {
    let mut buffer = Vec::with_capacity(16 * 1024);
    let (mut sent, mut done) = (0, 0);
    while !board.over.get() && board.failures.get() < FAILURES_MAX {
        let Some(request) = requests.get(if board.pace.cycle { done % requests.len().max(1) } else { done }) else {
            break;
        };
        if let Some(rate) = board.pace.rate {
            board.wait_for_turn(rate, place, sent).await;
        }
        let before = Instant::now();
        if before >= board.end {
            break;
        }
        sent += 1;
        match exchange(&mut stream, &mut buffer, request).await {
            Ok(Head { status, length, close, .. }) => {
                board.record(status, before, &buffer[length..]);
                if board.pace.again_after != Some(status) {
                    done += 1;
                }
                if !close {
                    continue;
                }
            }
            Err(error) => board.fail(&error),
        }
        match connect(board.address).await {
            Ok(fresh) => stream = fresh,
            Err(error) => {
                board.fail(&error);
                break;
            }
        }
    }
    board.over.set(true);
    done
}

impl Board {
    /// Lanes take turns, so that requests are spread evenly over time.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    async fn wait_for_turn(&self, rate: f64, place: usize, sent: usize) {
        let due = self.begin + Duration::from_secs_f64((sent * self.lanes + place) as f64 / rate);
        let now = Instant::now();
        if due > now {
            tokio::time::sleep_until(due.min(self.end).into()).await;
        } else if now - due > Duration::from_millis(1) {
            self.late.set(self.late.get() + 1);
        }
    }

    fn record(&self, status: u16, before: Instant, body: &[u8]) {
        let now = Instant::now();
        self.total.set(self.total.get() + 1);
        if before < self.measure_from || now >= self.end {
            return;
        }
        let mut statuses = self.statuses.borrow_mut();
        let took = nanoseconds(now - before);
        if let Some((_, latencies, _)) = statuses.iter_mut().find(|(known, ..)| *known == status) {
            latencies.push(took);
        } else {
            let sample = String::from_utf8_lossy(&body[..body.len().min(SAMPLE_BYTES_MAX)]).into_owned();
            statuses.push((status, vec![took], sample));
        }
    }

    fn fail(&self, error: &impl std::fmt::Display) {
        self.failures.set(self.failures.get() + 1);
        self.first_failure.borrow_mut().get_or_insert_with(|| error.to_string());
    }

    fn outcome(&self, lanes_done: Vec<usize>) -> Result<Outcome> {
        let statuses: BTreeMap<u16, Answers> = self
            .statuses
            .take()
            .into_iter()
            .map(|(status, took, sample)| (status, Answers::of(took, sample)))
            .collect();
        let until = Instant::now().min(self.end);
        let usage = process::usage(std::process::id())?;
        Ok(Outcome {
            seconds: until.saturating_duration_since(self.measure_from).as_secs_f64(),
            statuses,
            answers_total: self.total.get(),
            lanes_done,
            failures: self.failures.get(),
            first_failure: self.first_failure.take(),
            late: self.late.get(),
            own_cpu_seconds: usage.cpu_seconds,
            own_peak_bytes: usage.peak_bytes,
        })
    }
}

async fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends a request and reads its whole answer into `buffer`, which then holds nothing else.
async fn exchange(stream: &mut TcpStream, buffer: &mut Vec<u8>, request: &[u8]) -> std::io::Result<Head> {
    stream.write_all(request).await?;
    buffer.clear();
    loop {
        if stream.read_buf(buffer).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(head) = parse_head(buffer)? {
            while buffer.len() < head.length + head.body_bytes {
                if stream.read_buf(buffer).await? == 0 {
                    return Err(std::io::ErrorKind::UnexpectedEof.into());
                }
            }
            return Ok(head);
        }
    }
}

/// What must be known of an answer to read it whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Status code.
    pub status: u16,
    /// Bytes before the body.
    pub length: usize,
    /// Bytes of the body.
    pub body_bytes: usize,
    /// Whether the server ends the connection after it.
    pub close: bool,
}

/// Reads the head of an answer, once it is complete.
pub fn parse_head(bytes: &[u8]) -> std::io::Result<Option<Head>> {
    let mut fields = [httparse::EMPTY_HEADER; 48];
    let mut answer = httparse::Response::new(&mut fields);
    let length = match answer.parse(bytes).map_err(std::io::Error::other)? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial => return Ok(None),
    };
    let status = answer.code.unwrap_or_default();
    let field =
        |name: &str| answer.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value);
    let text = field("content-length").and_then(|value| std::str::from_utf8(value).ok());
    let body_bytes = match text.map(str::parse) {
        Some(Ok(bytes)) => bytes,
        None if matches!(status, 204 | 304) => 0,
        _ => return Err(std::io::Error::other("an answer without a content-length")),
    };
    let close = field("connection").is_some_and(|value| value.eq_ignore_ascii_case(b"close"));
    Ok(Some(Head { status, length, body_bytes, close }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_once_it_is_complete() {
        let answer = b"HTTP/1.1 202 Accepted\r\nContent-Type: a/b\r\ncontent-LENGTH: 3\r\n\r\nabc";
        let head = Head { status: 202, length: answer.len() - 3, body_bytes: 3, close: false };
        for cut in 0..answer.len() {
            let read = parse_head(&answer[..cut]).unwrap();
            assert_eq!(read, (cut >= head.length).then_some(head), "{cut}");
        }
        assert!(
            parse_head(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").unwrap().unwrap().close
        );
        assert!(parse_head(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").is_err());
    }
}
