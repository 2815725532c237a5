//! Accepts connections and serves their requests.
//!
//! The server has its own accept loop because the loop of axum sets no deadlines: without them a client that sends its head one byte a
//! minute holds a connection indefinitely.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use api::Front;
use api::addresses::Addresses;
use api::connection::{Connection, Exchange, Peer};
use api::receiving::ReceiveMemory;
use api::unread::{self, UnreadLimits};
use app::config::Settings;
use app::phase::Phases;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::response::Response;
use domain::live::Live;
use futures_util::StreamExt;
use hyper::body::{Body as _, Incoming};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tower::ServiceExt;

use super::head_bytes::{HeadBytes, HeadLimits};
use super::head_timer::{HeadDeadlines, HeadTimer};
use super::io_timeouts::Patient;
use super::place::Place;

/// The service of a listener.
#[derive(Debug, Clone)]
pub enum Service {
    /// One of the APIs.
    Public(Front),
    /// The operators' router.
    Router(Router),
}

impl Service {
    async fn answer(self, mut request: Request, connection: Arc<Connection>) -> Response {
        match self {
            Self::Public(front) => front.answer(request, connection).await,
            Self::Router(router) => {
                request.extensions_mut().insert(Peer(connection));
                router.oneshot(request).await.unwrap_or_else(|never| match never {})
            }
        }
    }
}

/// The limits of a connection: time and bytes per step. They are read when it is accepted.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// Deadlines for the start of a request and for the end of its head.
    pub heads: HeadDeadlines,
    /// Sizes of heads.
    pub head_bytes: HeadLimits,
    /// Bodies that were not read.
    pub unread: UnreadLimits,
    /// Writing and closing.
    pub write_deadline: Duration,
    /// All connections together, when the listener stops.
    pub drain: Duration,
}

impl ConnectionLimits {
    /// The limits of `[http]` and `[shutdown]`. Heads share this memory.
    pub fn of(Settings { http, shutdown, .. }: &Settings, memory: &Arc<ReceiveMemory>) -> Self {
        Self {
            heads: HeadDeadlines { head: http.head_deadline, idle: http.idle_deadline },
            head_bytes: HeadLimits { bytes_max: http.head_bytes_max, memory: Arc::clone(memory) },
            unread: UnreadLimits { bytes_max: http.unread_bytes_max, deadline: http.unread_deadline },
            write_deadline: http.write_deadline,
            drain: shutdown.drain_deadline / 2,
        }
    }
}

/// The rule by which connections are accepted.
#[derive(Debug)]
pub enum Door {
    /// A public listener: while all places are taken, it accepts no connection, and clients wait in the kernel's queue, which is bounded
    /// too. One address gets only some of the places.
    Public {
        /// Free places of all public listeners.
        places: Arc<Semaphore>,
        /// Number of all places, free ones included.
        places_total: usize,
        /// Places of each address.
        addresses: Addresses,
    },
    /// The operators' listener: always accepts. When there are too many connections, it closes the oldest idle one.
    Operators {
        /// Maximum number of concurrent connections.
        connections_max: usize,
        /// Open connections, oldest first.
        open: VecDeque<(Arc<Connection>, AbortHandle)>,
    },
}

impl Door {
    /// Waits for a free place.
    async fn place(&self) -> Option<OwnedSemaphorePermit> {
        match self {
            Self::Public { places, .. } => Arc::clone(places).acquire_owned().await.ok(),
            Self::Operators { .. } => None,
        }
    }

    /// Whether a connection from this address may stay.
    fn admit(&mut self, place: Option<OwnedSemaphorePermit>, address: IpAddr) -> Option<Place> {
        match self {
            Self::Public { places_total, addresses, .. } => {
                Some(Place::new(place, *places_total, addresses.take(address)?))
            }
            Self::Operators { connections_max, open } => {
                open.retain(|(_, task)| !task.is_finished());
                if open.len() >= *connections_max {
                    let idle = open.iter().position(|(connection, _)| !connection.is_busy())?;
                    let (_, task) = open.remove(idle)?;
                    task.abort();
                }
                Some(Place::default())
            }
        }
    }

    fn opened(&mut self, connection: Arc<Connection>, task: AbortHandle) {
        if let Self::Operators { open, .. } = self {
            open.push_back((connection, task));
        }
    }
}

/// A bound socket that accepts connections.
pub trait Listener: Send + Sync + 'static {
    /// An accepted connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next connection and its peer.
    fn next(&self) -> impl Future<Output = io::Result<(Self::Stream, Connection)>> + Send;

    /// Closes a connection that may not stay.
    fn turn_away(stream: Self::Stream);
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, Connection)> {
        let (stream, peer) = self.accept().await?;
        // Responses are small and requested one by one: Nagle's algorithm only adds delay.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(error = domain::reasons(&error), "TCP_NODELAY could not be set");
        }
        Ok((stream, Connection::new(peer)))
    }

    /// Writes the reason of the closure, as far as the socket accepts it without waiting.
    fn turn_away(stream: TcpStream) {
        const ANSWER: &[u8] =
            b"HTTP/1.1 424 Failed Dependency\r\ncontent-type: application/json\r\ncontent-length: 84\r\nretry-after: 1\r\n\
            cache-control: no-store\r\nconnection: close\r\n\r\n\
            {\"error\":\"temporarily_unavailable\",\"reason\":\"too_many_connections\",\"retryable\":true}";
        tracing::debug!("an address has too many connections: one more was closed");
        api::error::count_refusal("too_many_connections");
        // A client that floods the server may lose the response. The buffer of a new socket has space for it, but the runtime has not polled
        // it.
        let _ = stream.into_std().and_then(|mut socket| socket.write(ANSWER));
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<(UnixStream, Connection)> {
        let (stream, _) = self.accept().await?;
        let uid = stream.peer_cred()?.uid();
        Ok((stream, Connection::of_process(uid)))
    }

    fn turn_away(stream: UnixStream) {
        drop(stream);
    }
}

/// Accepts connections of this listener until the phase is stopping.
pub async fn accept<L: Listener>(
    listener: L,
    service: Service,
    mut door: Door,
    limits: Live<ConnectionLimits>,
    phases: Phases,
) {
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = next(&listener, &door) => accepted,
            () = phases.stopping() => break,
        };
        match accepted {
            Ok((place, stream, connection)) => {
                let Some(place) = door.admit(place, connection.address()) else {
                    L::turn_away(stream);
                    continue;
                };
                let connection = Arc::new(connection);
                let limits = Arc::clone(&limits.get());
                let heads = HeadTimer::new(limits.heads, place);
                let head_bytes = HeadBytes::new(&limits.head_bytes);
                let stream = Patient::new(stream, limits.write_deadline, Arc::clone(&connection), (heads, head_bytes));
                let watcher = graceful.watcher();
                let (service, phases) = (service.clone(), phases.clone());
                let conversation = Conversation { connection: Arc::clone(&connection), service, phases, limits };
                let conversation = conversation.run(stream, watcher);
                let task = tokio::spawn(async move {
                    // Clients often abort connections, which is no error of the server.
                    if let Err(error) = conversation.await {
                        tracing::debug!(error = domain::reasons(&error), "a connection ended early");
                    }
                });
                door.opened(connection, task.abort_handle());
            }
            Err(error) => {
                // The process is probably out of file descriptors: an immediate retry would only use CPU time.
                tracing::warn!(error = domain::reasons(&error), "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    let drain = limits.get().drain;
    if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("some connections did not finish in time");
    }
}

type Accepted<S> = (Option<OwnedSemaphorePermit>, S, Connection);

/// The next connection, after a place is free.
async fn next<L: Listener>(listener: &L, door: &Door) -> io::Result<Accepted<L::Stream>> {
    let place = door.place().await;
    let (stream, connection) = listener.next().await?;
    Ok((place, stream, connection))
}

/// One connection, from its first request to its last.
struct Conversation {
    connection: Arc<Connection>,
    service: Service,
    phases: Phases,
    limits: Arc<ConnectionLimits>,
}

impl Conversation {
    async fn run<S>(self, stream: Patient<S>, graceful: Watcher) -> Result<(), hyper::Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // Maximum size of hyper's buffer, which the connection keeps.
        let bytes_max = self.limits.head_bytes.bytes_max;
        let conversation = &self;
        let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| async move {
            Ok::<_, Infallible>(conversation.answer(request).await)
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .header_read_timeout(None)
            .keep_alive(true)
            .max_buf_size(bytes_max)
            .serve_connection(TokioIo::new(stream), service);
        graceful.watch(connection).await
    }

    async fn answer(&self, request: hyper::Request<Incoming>) -> Response {
        let Self { connection, service, phases, limits } = self;
        let exchange = connection.begin();
        connection.set_lingers(false);
        let request = unread::returning(request, connection);
        let mut response = service.clone().answer(request, Arc::clone(connection)).await;
        if let Some(body) = connection.take_unread()
            && !unread::discard(body, limits.unread).await
        {
            connection.set_lingers(true);
        }
        if connection.lingers() || phases.closes_connections() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        until_its_end(response, exchange)
    }
}

/// Ends the exchange with the end of a streamed response. hyper has any other response immediately.
fn until_its_end(response: Response, exchange: Exchange) -> Response {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| {
        Body::from_stream(body.into_data_stream().inspect(move |_| {
            let _lasts = &exchange;
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_connections_are_the_settings() {
        let mut settings = Settings::default();
        let seconds = Duration::from_secs;
        let http = &mut settings.http;
        (http.head_deadline, http.idle_deadline, http.write_deadline) = (seconds(1), seconds(2), seconds(3));
        (http.unread_deadline, http.unread_bytes_max, http.head_bytes_max) = (seconds(4), 5, 9000);
        settings.shutdown.drain_deadline = seconds(6);
        let limits = ConnectionLimits::of(&settings, &ReceiveMemory::new(0));
        assert_eq!((limits.heads.head, limits.heads.idle, limits.write_deadline), (seconds(1), seconds(2), seconds(3)));
        assert_eq!((limits.unread.deadline, limits.unread.bytes_max), (seconds(4), 5));
        assert_eq!((limits.head_bytes.bytes_max, limits.drain), (9000, seconds(3)));
    }
}
