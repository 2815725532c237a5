//! The load generator: one thread, one task per connection, prerendered requests.
//!
//! It must be lean because it shares the cores with the measured server: it builds no requests and no header maps, and
//! parses the head of a response once with `httparse`.
//!
//! An open loop sends at a fixed rate, independent of the responses. Latency is counted from the time at which a
//! request was due, so that a stall of the server is charged for every delayed request.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::LocalSet;

use crate::options::Result;
use crate::outcome::{Answers, Outcome, nanoseconds};
use crate::plan::{Pace, Plan};

/// Number of connection failures that aborts a run.
const FAILURES_MAX: u64 = 100;
/// How long a run waits for pending responses after its end.
const GRACE: Duration = Duration::from_secs(15);
const SAMPLE_BYTES_MAX: usize = 200;

/// Reads the plan, runs it, and prints the outcome.
pub fn from_standard_input(address: SocketAddr) -> Result<()> {
    let plan = Plan::read(std::io::BufReader::new(std::io::stdin().lock()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = LocalSet::new().block_on(&runtime, run(address, plan))?;
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

/// State shared by the lanes.
struct Shared {
    address: SocketAddr,
    pace: Pace,
    lanes: usize,
    begin: Instant,
    measure_from: Instant,
    end: Instant,
    over: Cell<bool>,
    totals: RefCell<BTreeMap<u16, u64>>,
    /// Responses that contain the expected text.
    holding: Cell<u64>,
    /// One per lane of an open loop, notified when the lane's next request is due.
    due: Vec<Notify>,
    cpu_before: f64,
    failures: Cell<u64>,
    first_failure: RefCell<Option<String>>,
    late: Cell<u64>,
    /// Latencies in nanoseconds and the first body by status. A list, because there are few statuses.
    statuses: RefCell<Vec<(u16, Vec<u64>, String)>>,
}

async fn run(address: SocketAddr, plan: Plan) -> Result<Outcome> {
    let Plan { pace, lanes } = plan;
    // Connections are opened before the measurement.
    let mut streams = Vec::with_capacity(lanes.len());
    for _ in &lanes {
        streams.push(connect(address).await?);
    }
    let due: Vec<Notify> = if pace.open { lanes.iter().map(|_| Notify::new()).collect() } else { Vec::new() };
    let cpu_before = crate::usage::usage(std::process::id())?.cpu_seconds;
    let begin = Instant::now();
    let measure_from = begin + Duration::from_secs_f64(pace.warm_up_seconds);
    let board = Rc::new(Shared {
        address,
        lanes: lanes.len(),
        begin,
        measure_from,
        end: measure_from + Duration::from_secs_f64(pace.seconds),
        pace,
        over: Cell::new(false),
        totals: RefCell::default(),
        holding: Cell::new(0),
        due,
        cpu_before,
        failures: Cell::new(0),
        first_failure: RefCell::default(),
        late: Cell::new(0),
        statuses: RefCell::default(),
    });
    let time_limit = board.end - begin + GRACE;
    let ticker =
        board.pace.rate.filter(|_| board.pace.open).map(|rate| tokio::task::spawn_local(tick(Rc::clone(&board), rate)));
    let tasks: Vec<_> = lanes
        .into_iter()
        .zip(streams)
        .enumerate()
        .map(|(place, (requests, stream))| tokio::task::spawn_local(lane(Rc::clone(&board), place, requests, stream)))
        .collect();
    let mut lanes_done = Vec::with_capacity(tasks.len());
    for task in tasks {
        let left = time_limit.saturating_sub(begin.elapsed());
        lanes_done.push(tokio::time::timeout(left, task).await.map_err(|_| "answers are still out after the grace")??);
    }
    if let Some(ticker) = ticker {
        ticker.abort();
    }
    board.outcome(lanes_done)
}

/// Wakes the lanes of an open loop in turn, when their requests are due. The runtime's timers have a resolution of a
/// millisecond, so a thread sleeps instead; its delay of about 50 µs counts as latency.
async fn tick(board: Rc<Shared>, rate: f64) {
    let (wake, over) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let ended = EndsThread(Arc::clone(&over));
    let step = Duration::from_secs_f64((1.0 / rate).clamp(1e-6, 0.1)).as_nanos();
    let (begin, waker) = (board.begin, Arc::clone(&wake));
    thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            // Turns in the past need no wake-up.
            let left = step - begin.elapsed().as_nanos() % step;
            thread::sleep(Duration::from_nanos_u128(left));
            waker.notify_one();
        }
    });
    for number in 0_usize.. {
        while Instant::now() < board.due_at(rate, number) {
            wake.notified().await;
        }
        if board.over.get() {
            break;
        }
        board.due[number % board.lanes].notify_one();
    }
    drop(ended);
}

/// Ends the sleeping thread when the task ends.
struct EndsThread(Arc<AtomicBool>);

impl Drop for EndsThread {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs one connection; returns the number of completed requests.
async fn lane(board: Rc<Shared>, place: usize, requests: Vec<Bytes>, mut stream: TcpStream) -> usize {
    let mut buffer = Vec::with_capacity(16 * 1024);
    let (mut sent, mut done) = (0, 0);
    while !board.over.get() && board.failures.get() < FAILURES_MAX {
        let Some(request) = requests.get(if board.pace.cycle { done % requests.len().max(1) } else { done }) else {
            break;
        };
        let mut due = None;
        if let Some(rate) = board.pace.rate {
            due = Some(board.wait_for_turn(rate, place, sent).await).filter(|_| board.pace.open);
        }
        let now = Instant::now();
        if now >= board.end || board.over.get() {
            break;
        }
        let before = due.unwrap_or(now);
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
    // Wakes lanes that wait for their turn, so that they end.
    board.due.iter().for_each(Notify::notify_one);
    done
}

impl Shared {
    /// The time at which a request is due: lanes take turns, so that requests are evenly distributed.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn due_at(&self, rate: f64, number: usize) -> Instant {
        self.begin + Duration::from_secs_f64(number as f64 / rate)
    }

    /// Waits until the next request of a lane is due, and returns that time.
    async fn wait_for_turn(&self, rate: f64, place: usize, sent: usize) -> Instant {
        let due = self.due_at(rate, sent * self.lanes + place);
        let now = Instant::now();
        if now >= due {
            if now - due > Duration::from_millis(1) {
                self.late.set(self.late.get() + 1);
            }
        } else if let Some(turn) = self.due.get(place) {
            while Instant::now() < due.min(self.end) && !self.over.get() {
                // The ticker stops at the end of the run.
                let _ = tokio::time::timeout_at(self.end.into(), turn.notified()).await;
            }
        } else {
            tokio::time::sleep_until(due.min(self.end).into()).await;
        }
        due
    }

    fn record(&self, status: u16, before: Instant, body: &[u8]) {
        let now = Instant::now();
        *self.totals.borrow_mut().entry(status).or_default() += 1;
        if self.pace.holding.as_ref().is_some_and(|text| memmem(body, text.as_bytes())) {
            self.holding.set(self.holding.get() + 1);
        }
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
        let usage = crate::usage::usage(std::process::id())?;
        let totals = self.totals.take();
        Ok(Outcome {
            seconds: until.saturating_duration_since(self.measure_from).as_secs_f64(),
            statuses,
            answers_total: totals.values().sum(),
            totals,
            holding: self.holding.get(),
            lanes_done,
            failures: self.failures.get(),
            first_failure: self.first_failure.take(),
            late: self.late.get(),
            own_cpu_seconds: usage.cpu_seconds - self.cpu_before,
            own_cpu_share: (usage.cpu_seconds - self.cpu_before) / self.begin.elapsed().as_secs_f64(),
            own_peak_bytes: usage.peak_bytes,
        })
    }
}

async fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends a request and reads the whole response into `buffer`, replacing its content.
async fn exchange(stream: &mut TcpStream, buffer: &mut Vec<u8>, request: &[u8]) -> std::io::Result<Head> {
    stream.write_all(request).await?;
    buffer.clear();
    loop {
        if stream.read_buf(buffer).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(head) = parse_head(buffer)? {
            while head.end(buffer)?.is_none() {
                if stream.read_buf(buffer).await? == 0 {
                    return Err(std::io::ErrorKind::UnexpectedEof.into());
                }
            }
            return Ok(head);
        }
    }
}

/// The framing of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    /// Length of the head, in bytes.
    pub length: usize,
    /// Length of the body; `None` for a chunked one.
    pub body_bytes: Option<usize>,
    /// Whether the server closes the connection afterwards.
    pub close: bool,
}

impl Head {
    /// The end of the response; `None` if it is incomplete.
    pub fn end(&self, bytes: &[u8]) -> std::io::Result<Option<usize>> {
        match self.body_bytes {
            Some(count) => Ok(Some(self.length + count).filter(|&end| bytes.len() >= end)),
            None => chunks_end(bytes, self.length),
        }
    }
}

/// The end of a chunked body that starts at `at`; `None` if it is incomplete. No peer sends trailers.
fn chunks_end(bytes: &[u8], mut at: usize) -> std::io::Result<Option<usize>> {
    while let Some(line) = bytes[at..].windows(2).position(|pair| pair == b"\r\n") {
        let size = std::str::from_utf8(&bytes[at..at + line]).unwrap_or_default();
        let size = usize::from_str_radix(size.split(';').next().unwrap_or_default().trim(), 16);
        let size = size.map_err(std::io::Error::other)?;
        at += line + 2 + size + 2;
        if bytes.len() < at {
            return Ok(None);
        }
        if size == 0 {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn memmem(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len().max(1)).any(|window| window == text)
}

/// Parses the head of a response; `None` if it is incomplete.
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
        Some(Ok(bytes)) => Some(bytes),
        None if matches!(status, 204 | 304) => Some(0),
        None if field("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case(b"chunked")) => None,
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
        let head = Head { status: 202, length: answer.len() - 3, body_bytes: Some(3), close: false };
        for cut in 0..answer.len() {
            let read = parse_head(&answer[..cut]).unwrap();
            assert_eq!(read, (cut >= head.length).then_some(head), "{cut}");
        }
        assert!(
            parse_head(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").unwrap().unwrap().close
        );
        assert!(parse_head(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }

    #[test]
    fn an_answer_in_chunks_ends_after_the_empty_chunk() {
        let answer =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n";
        let head = parse_head(answer).unwrap().unwrap();
        for cut in head.length..answer.len() {
            assert_eq!(head.end(&answer[..cut]).unwrap(), None, "{cut}");
        }
        assert_eq!(head.end(answer).unwrap(), Some(answer.len()));
        assert!(head.end(&[&answer[..head.length], b"x\r\n"].concat()).is_err());
    }
}
