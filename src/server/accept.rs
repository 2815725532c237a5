//! Accepts connections and serves their requests.
//!
//! The accept loop is ours because clocks are needed that a ready-made one does not set: without them a client that sends its head one
//! byte a minute holds a connection indefinitely.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use api::Front;
use api::addresses::Addresses;
use api::connection::{Connection, Exchange};
use api::unread::{self, UnreadLimits};
use app::phase::Phases;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::response::Response;
use futures_util::StreamExt;
use hyper::body::{Body as _, Incoming};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tower::ServiceExt;

use super::head_bytes::{HeadBytes, HeadLimits};
use super::head_timer::{HeadDeadlines, HeadTimer};
use super::io_timeouts::{IoTimeouts, Patient};
use super::place::Place;

/// The service of a listener.
#[derive(Debug, Clone)]
pub enum Service {
    /// One of the APIs.
    Public(Front),
    /// Any other: that of operators, or of `attache otlp`.
    Router(Router),
}

impl Service {
    async fn answer(self, request: Request, connection: Arc<Connection>) -> Response {
        match self {
            Self::Public(front) => front.answer(request, connection).await,
            Self::Router(router) => router.oneshot(request).await.unwrap_or_else(|never| match never {}),
        }
    }
}

/// How long each step of a connection may take, and how much it may send for it.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// Until a request has begun, and until its head has ended.
    pub heads: HeadDeadlines,
    /// Sizes of heads.
    pub head_bytes: HeadLimits,
    /// Bodies that were not read.
    pub unread: UnreadLimits,
    /// Writing and closing.
    pub io_timeouts: IoTimeouts,
    /// All connections together, when the listener stops.
    pub drain: Duration,
}

/// The rule by which connections are accepted.
#[derive(Debug)]
pub enum Door {
    /// That of the public: while all places are taken, no connection is accepted, and clients wait in the kernel's queue, which is bounded too. One
    /// address has only some of the places.
    Public {
        /// Places of all listeners of the public.
        places: Arc<Semaphore>,
        /// How many there are, free ones included.
        places_total: usize,
        /// Those of each address.
        addresses: Addresses,
    },
    /// That of operators: always open. When there are too many connections, the oldest that is idle makes room.
    Operators {
        /// Connections at a time.
        connections_max: usize,
        /// Those that there are, oldest first.
        open: VecDeque<(Arc<Connection>, AbortHandle)>,
    },
}

impl Door {
    /// Waits until there is a place for one more connection.
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

/// Accepts connections of this listener until it is to stop.
pub async fn accept(listener: TcpListener, service: Service, mut door: Door, limits: ConnectionLimits, phases: Phases) {
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = next(&listener, &door) => accepted,
            () = phases.stopping() => break,
        };
        match accepted {
            Ok((place, stream, peer)) => {
                let Some(place) = door.admit(place, peer.ip()) else {
                    turn_away(stream);
                    continue;
                };
                let connection = Arc::new(Connection::new(peer));
                let heads = HeadTimer::new(limits.heads, place);
                let head_bytes = HeadBytes::new(&limits.head_bytes);
                let stream = patient(stream, limits.io_timeouts, &connection, (heads, head_bytes));
                let watcher = graceful.watcher();
                let (service, phases) = (service.clone(), phases.clone());
                let conversation =
                    Conversation { connection: Arc::clone(&connection), service, phases, limits: limits.clone() };
                let conversation = conversation.run(stream, watcher);
                let task = tokio::spawn(async move {
                    // Clients break connections all the time; it is none of our errors.
                    if let Err(error) = conversation.await {
                        tracing::debug!(error = domain::reasons(&error), "a connection ended early");
                    }
                });
                door.opened(connection, task.abort_handle());
            }
            Err(error) => {
                // Out of file descriptors, most likely: trying again at once would only burn the processor.
                tracing::warn!(error = domain::reasons(&error), "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(limits.drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("some connections did not finish in time");
    }
}

type Accepted = (Option<OwnedSemaphorePermit>, TcpStream, SocketAddr);

/// The next connection, once there is a place for it.
async fn next(listener: &TcpListener, door: &Door) -> std::io::Result<Accepted> {
    let place = door.place().await;
    let (stream, peer) = listener.accept().await?;
    Ok((place, stream, peer))
}

/// Says why a connection is closed, as far as the socket takes that at once.
fn turn_away(stream: TcpStream) {
    const ANSWER: &[u8] =
        b"HTTP/1.1 424 Failed Dependency\r\ncontent-type: application/json\r\ncontent-length: 84\r\nretry-after: 1\r\n\
        cache-control: no-store\r\nconnection: close\r\n\r\n\
        {\"error\":\"temporarily_unavailable\",\"reason\":\"too_many_connections\",\"retryable\":true}";
    tracing::debug!("an address has too many connections: one more was closed");
    api::error::count_refusal("too_many_connections");
    // A client that floods the server may lose the response. A socket that was just accepted has room for it, which the runtime does not know yet.
    let _ = stream.into_std().and_then(|mut socket| socket.write(ANSWER));
}

fn patient(
    stream: TcpStream,
    io_timeouts: IoTimeouts,
    connection: &Arc<Connection>,
    heads: (HeadTimer, HeadBytes),
) -> Patient<TcpStream> {
    // Answers are small and asked for one by one: waiting for more to send only adds delay.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(error = domain::reasons(&error), "TCP_NODELAY could not be set");
    }
    Patient::new(stream, io_timeouts, Arc::clone(connection), heads)
}

/// One connection, from its first request to its last.
struct Conversation {
    connection: Arc<Connection>,
    service: Service,
    phases: Phases,
    limits: ConnectionLimits,
}

impl Conversation {
    async fn run(self, stream: Patient<TcpStream>, graceful: Watcher) -> Result<(), hyper::Error> {
        // Of hyper's buffer, which the connection keeps.
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

/// The exchange lasts as long as a response that comes piece by piece. Any other is in the hands of hyper at once.
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
