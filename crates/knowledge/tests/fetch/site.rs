//! A scripted web server on raw sockets, since most faults are below HTTP; and a trap that must not be connected to.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

/// One action on a connection. After the last one, the server closes the connection.
pub enum Step {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Sends these bytes repeatedly until the client disconnects.
    Flood(Vec<u8>),
    /// Sends these bytes, one every ten milliseconds, and then repeats the last one until the client disconnects.
    Drip(Vec<u8>),
    /// Waits until the client disconnects.
    Hang,
    /// Waits for a moment.
    Rest,
    /// Waits at the barrier for other connections.
    Meet(Arc<Barrier>),
}

/// A received request.
#[derive(Debug, Clone)]
pub struct Request {
    pub target: String,
    pub head: String,
    /// The local address of the connection.
    pub local: IpAddr,
}

impl Request {
    /// The value of a header; empty if it is absent.
    pub fn header(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).next().unwrap_or_default()
    }
}

type Script = dyn Fn(&Request, usize) -> Vec<Step> + Send + Sync;

#[derive(Default)]
struct Seen {
    requests: Mutex<Vec<Request>>,
    connections: AtomicUsize,
    in_progress: AtomicUsize,
    busiest: AtomicUsize,
}

pub struct Site {
    pub address: SocketAddr,
    seen: Arc<Seen>,
    accepting: AbortHandle,
}

impl Site {
    /// Serves on all addresses of this machine. `script` receives the request and the number of earlier requests for
    /// its target.
    pub async fn start(script: impl Fn(&Request, usize) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self::serve(None, Arc::new(script)).await
    }

    /// Serves over TLS.
    pub async fn start_tls(
        tls: TlsAcceptor,
        script: impl Fn(&Request, usize) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        Self::serve(Some(tls), Arc::new(script)).await
    }

    async fn serve(tls: Option<TlsAcceptor>, script: Arc<Script>) -> Self {
        let listener = TcpListener::bind(("0.0.0.0", 0)).await.unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], listener.local_addr().unwrap().port()));
        let seen = Arc::new(Seen::default());
        let state = Arc::clone(&seen);
        let accepting = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (tls, script, state) = (tls.clone(), Arc::clone(&script), Arc::clone(&state));
                state.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let local = stream.local_addr().unwrap().ip();
                    match tls {
                        None => converse(stream, local, &*script, &state).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                converse(stream, local, &*script, &state).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, seen, accepting: accepting.abort_handle() }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn requests(&self) -> Vec<Request> {
        self.seen.requests.lock().unwrap().clone()
    }

    /// The requested targets in order.
    pub fn targets(&self) -> Vec<String> {
        self.requests().into_iter().map(|request| request.target).collect()
    }

    pub fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// The maximum number of concurrent requests.
    pub fn busiest(&self) -> usize {
        self.seen.busiest.load(Ordering::SeqCst)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn converse(mut stream: impl AsyncRead + AsyncWrite + Unpin, local: IpAddr, script: &Script, seen: &Seen) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let target = head.split(' ').nth(1).unwrap().to_owned();
    let request = Request { target, head, local };
    let count = {
        let mut requests = seen.requests.lock().unwrap();
        let count = requests.iter().filter(|past| past.target == request.target).count();
        requests.push(request.clone());
        count
    };
    let now = seen.in_progress.fetch_add(1, Ordering::SeqCst) + 1;
    seen.busiest.fetch_max(now, Ordering::SeqCst);
    let mut steps = script(&request, count);
    let last = steps.pop();
    for step in steps {
        take(step, &mut stream).await;
    }
    // Counted before the client can see the end of the response.
    seen.in_progress.fetch_sub(1, Ordering::SeqCst);
    if let Some(last) = last {
        take(last, &mut stream).await;
    }
    let _ = stream.shutdown().await;
}

/// An error means that the client has disconnected, which ends the step.
async fn take(step: Step, stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    match step {
        Step::Send(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.flush().await;
        }
        Step::Flood(bytes) => while stream.write_all(&bytes).await.is_ok() {},
        Step::Drip(bytes) => {
            let last = *bytes.last().unwrap();
            for byte in bytes.into_iter().chain(std::iter::repeat(last)) {
                if stream.write_all(&[byte]).await.is_err() || stream.flush().await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        Step::Hang => {
            let _ = stream.read_u8().await;
        }
        Step::Rest => tokio::time::sleep(Duration::from_millis(10)).await,
        Step::Meet(barrier) => {
            barrier.wait().await;
        }
    }
}

/// A complete response.
pub fn answer(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<Step> {
    let body = body.as_ref();
    let length = body.len().to_string();
    let mut bytes = head(status, &[headers, &[("content-length", length.as_str())]].concat());
    bytes.extend_from_slice(body);
    vec![Step::Send(bytes)]
}

/// The head of a response without a length: the body ends with the connection.
pub fn head(status: u16, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status} Whatever\r\nconnection: close\r\n");
    for (name, value) in headers {
        write!(text, "{name}: {value}\r\n").unwrap();
    }
    text.push_str("\r\n");
    text.into_bytes()
}

/// A response with a small page.
pub fn page(text: &str) -> Vec<Step> {
    answer(200, &[("content-type", "text/html; charset=utf-8")], format!("<html><p>{text}</p></html>"))
}

pub fn redirect(to: &str) -> Vec<Step> {
    answer(302, &[("location", to)], "")
}

/// A listener on all addresses of this machine that must not be connected to.
pub struct Trap {
    listener: TcpListener,
}

impl Trap {
    pub async fn set() -> Self {
        // Accepts IPv4 too; falls back to IPv4 on machines without IPv6.
        let listener = match TcpListener::bind("[::]:0").await {
            Ok(listener) => listener,
            Err(_) => TcpListener::bind("0.0.0.0:0").await.unwrap(),
        };
        Self { listener }
    }

    pub fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }

    /// Connects to the listener: an earlier connection would be accepted first.
    pub async fn assert_untouched(self) {
        let connection = TcpStream::connect(("127.0.0.1", self.port())).await.unwrap();
        let (_, first) = self.listener.accept().await.unwrap();
        assert_eq!(first.port(), connection.local_addr().unwrap().port(), "somebody fell into the trap");
    }
}

/// A scripted resolver: each name has a list of results, of which the last one repeats.
#[derive(Default, Clone)]
pub struct Names {
    answers: Arc<Mutex<HashMap<String, Vec<Vec<IpAddr>>>>>,
    asked: Arc<AtomicUsize>,
}

impl Names {
    pub fn with(self, name: &str, answers: &[&[&str]]) -> Self {
        let answers = answers.iter().map(|answer| answer.iter().map(|text| text.parse().unwrap()).collect());
        self.answers.lock().unwrap().insert(name.to_owned(), answers.collect());
        self
    }

    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl reqwest::dns::Resolve for Names {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut names = self.answers.lock().unwrap();
        let answer = match names.get_mut(name.as_str()) {
            Some(answers) if answers.len() > 1 => Ok(answers.remove(0)),
            Some(answers) => Ok(answers[0].clone()),
            None => Err("no such name".into()),
        };
        // The port of a resolved address must be ignored.
        let answer = answer.map(|addresses| {
            Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 1))) as reqwest::dns::Addrs
        });
        Box::pin(async move { answer })
    }
}
