//! A balancer between clients and servers, like a typical production balancer: round robin for each request, kept connections to the
//! servers, health checks of `/readyz`, and no retry. If a server does not answer a request, the client gets 502.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Maximum time of a health check; a server that takes longer is unhealthy.
const CHECK_DEADLINE: Duration = Duration::from_secs(1);
/// Maximum time for which a server may keep a request.
const ANSWER_DEADLINE: Duration = Duration::from_secs(20);

/// A running balancer; its tasks end when it is dropped.
#[derive(Debug)]
pub struct Balancer {
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Shared {
    servers: Mutex<Vec<Arc<Target>>>,
    turn: AtomicUsize,
    faults: Mutex<Vec<String>>,
}

/// A server behind the balancer.
#[derive(Debug)]
struct Target {
    public: SocketAddr,
    operator: SocketAddr,
    healthy: AtomicBool,
    answered: AtomicUsize,
    kept: Mutex<Vec<TcpStream>>,
}

impl Balancer {
    /// Listens at `address` and asks each server for its health after each pause of `check_every`.
    ///
    /// # Panics
    /// When the address cannot be bound.
    pub async fn start(address: SocketAddr, check_every: Duration) -> Self {
        let listener =
            TcpListener::bind(address).await.unwrap_or_else(|error| panic!("the balancer at {address}: {error}"));
        let shared = Arc::new(Shared::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(check(Arc::clone(&shared), check_every));
        let accepting = Arc::clone(&shared);
        tasks.spawn(async move {
            let mut clients = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let shared = Arc::clone(&accepting);
                clients.spawn(async move {
                    // A client that disconnects only ends its own connection.
                    let _ = serve(&shared, client).await;
                });
                while clients.try_join_next().is_some() {}
            }
        });
        Self { shared, _tasks: tasks }
    }

    /// Adds a server, by its public and its operator's listener. It gets requests after its first successful check.
    pub fn add(&self, public: SocketAddr, operator: SocketAddr) {
        let target = Target { public, operator, healthy: false.into(), answered: 0.into(), kept: Mutex::default() };
        lock(&self.shared.servers).push(Arc::new(target));
    }

    /// Whether the server with this public listener gets requests.
    pub fn is_healthy(&self, public: SocketAddr) -> bool {
        lock(&self.shared.servers)
            .iter()
            .any(|target| target.public == public && target.healthy.load(Ordering::Relaxed))
    }

    /// Number of requests that each server answered, in the order in which the servers were added.
    pub fn answered(&self) -> Vec<usize> {
        lock(&self.shared.servers).iter().map(|target| target.answered.load(Ordering::Relaxed)).collect()
    }

    /// The requests that no server answered: for each, the server and the cause.
    pub fn faults(&self) -> Vec<String> {
        lock(&self.shared.faults).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn check(shared: Arc<Shared>, every: Duration) {
    loop {
        let servers = lock(&shared.servers).clone();
        let mut checks = JoinSet::new();
        for target in servers {
            checks.spawn(async move {
                let healthy =
                    matches!(tokio::time::timeout(CHECK_DEADLINE, ready(target.operator)).await, Ok(Ok(true)));
                target.healthy.store(healthy, Ordering::Relaxed);
                if !healthy {
                    lock(&target.kept).clear();
                }
            });
        }
        checks.join_all().await;
        tokio::time::sleep(every).await;
    }
}

/// Whether `/readyz` of this operator's listener answers 200.
///
/// # Errors
/// When the connection fails.
pub async fn ready(operator: SocketAddr) -> io::Result<bool> {
    let mut stream = TcpStream::connect(operator).await?;
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {operator}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let answer = Message::read(&mut stream).await?;
    Ok(answer.is_some_and(|answer| answer.head.starts_with("HTTP/1.1 200")))
}

/// The requests of one client, one after the other.
async fn serve(shared: &Shared, mut client: TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    while let Some(request) = Message::read(&mut client).await? {
        let last = request.closes();
        match forward(shared, &request).await {
            Ok(answer) => client.write_all(&answer.without_connection()).await?,
            Err(fault) => {
                let body = format!("{{\"error\":\"balancer\",\"fault\":{fault:?}}}");
                lock(&shared.faults).push(fault);
                let length = body.len();
                let head =
                    format!("HTTP/1.1 502 Bad Gateway\r\nContent-Type: application/json\r\nContent-Length: {length}");
                client.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await?;
            }
        }
        if last {
            break;
        }
    }
    Ok(())
}

/// Sends the request to the next healthy server, once.
async fn forward(shared: &Shared, request: &Message) -> Result<Message, String> {
    let healthy: Vec<Arc<Target>> =
        lock(&shared.servers).iter().filter(|target| target.healthy.load(Ordering::Relaxed)).cloned().collect();
    if healthy.is_empty() {
        return Err("no server is healthy".to_owned());
    }
    let target = &healthy[shared.turn.fetch_add(1, Ordering::Relaxed) % healthy.len()];
    let fault = |doing: &str, error: io::Error| format!("{} {doing}: {error}", target.public);
    let mut stream = match target.kept() {
        Some(kept) => kept,
        None => TcpStream::connect(target.public).await.map_err(|error| fault("refused the connection", error))?,
    };
    stream.set_nodelay(true).map_err(|error| fault("has a bad connection", error))?;
    stream.write_all(&request.bytes).await.map_err(|error| fault("did not take the request", error))?;
    let answer = tokio::time::timeout(ANSWER_DEADLINE, Message::read(&mut stream)).await;
    let answer = answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let answer = answer
        .and_then(|answer| answer.ok_or_else(|| io::ErrorKind::UnexpectedEof.into()))
        .map_err(|error| fault("did not answer", error))?;
    target.answered.fetch_add(1, Ordering::Relaxed);
    if !answer.closes() {
        lock(&target.kept).push(stream);
    }
    Ok(answer)
}

impl Target {
    /// A kept connection that the server has not closed.
    fn kept(&self) -> Option<TcpStream> {
        loop {
            let stream = lock(&self.kept).pop()?;
            let open = stream.try_read(&mut [0; 1]);
            if open.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
                return Some(stream);
            }
        }
    }
}

/// A request or a response, with a body of the length that its head names.
struct Message {
    /// The head in its own letters, without the empty line.
    head: String,
    /// Head and body as received.
    bytes: Vec<u8>,
}

impl Message {
    /// Reads the next message; `None` if the connection ends before its first byte.
    async fn read(stream: &mut TcpStream) -> io::Result<Option<Self>> {
        let mut bytes = Vec::new();
        let (head, whole) = loop {
            if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
                let length = member(&head, "content-length").map_or(Ok(0), str::parse::<usize>);
                break (head, end + 4 + length.map_err(io::Error::other)?);
            }
            if stream.read_buf(&mut bytes).await? == 0 {
                return if bytes.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        };
        if member(&head, "transfer-encoding").is_some() {
            return Err(io::Error::other("a body in chunks, which this balancer does not forward"));
        }
        while bytes.len() < whole {
            if stream.read_buf(&mut bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(Some(Self { head, bytes }))
    }

    fn closes(&self) -> bool {
        member(&self.head, "connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// The message without `Connection`, which is about the connection to the server and not about the one to the client.
    fn without_connection(&self) -> Vec<u8> {
        let lines = self.head.split("\r\n");
        let kept: Vec<&str> = lines.filter(|line| !line.to_ascii_lowercase().starts_with("connection:")).collect();
        let mut bytes = kept.join("\r\n").into_bytes();
        bytes.extend_from_slice(&self.bytes[self.head.len()..]);
        bytes
    }
}

/// The value of a header, by its name in lower case.
fn member<'head>(head: &'head str, name: &str) -> Option<&'head str> {
    head.split("\r\n").skip(1).find_map(|line| {
        let (given, value) = line.split_once(':')?;
        given.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}
