//! Two listeners around one house: accepting, serving, draining.
//!
//! The accept loop is ours because hyper's own clocks are needed: without a timer a client that sends its head one byte a minute
//! holds a connection for ever.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actors::Outcome;
use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use domain::{Chance, Clock};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::ServiceExt;

use crate::config::Settings;
use crate::house::{BuildError, House, Urls};
use crate::http::Front;
use crate::installation::LogStart;

/// A server that answers.
#[derive(Debug)]
pub struct Server {
    /// The house behind it.
    pub house: House,
    /// Where the public listener is.
    pub address: SocketAddr,
    /// Where the operator's listener is.
    pub admin_address: SocketAddr,
    /// Where the knowledge API is.
    pub knowledge_address: SocketAddr,
    stop: watch::Sender<bool>,
    listeners: Vec<JoinHandle<()>>,
    admin: JoinHandle<()>,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address} ({knob}): {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The knob that names it.
        knob: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// The house cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl Server {
    /// Binds, builds the house, and begins to answer.
    pub async fn start(settings: Settings, clock: Clock, chance: Chance) -> Result<Self, StartError> {
        Self::start_with(settings, clock, chance, LogStart::Continue).await
    }

    /// The same, and what to do with the event log.
    pub async fn start_with(
        settings: Settings,
        clock: Clock,
        chance: Chance,
        log: LogStart,
    ) -> Result<Self, StartError> {
        crate::telemetry::begin_counting();
        let public = listen(settings.http.bind, "http.bind")?;
        let admin = listen(settings.admin.bind, "admin.bind")?;
        let address = public.local_addr().unwrap_or(settings.http.bind);
        let admin_address = admin.local_addr().unwrap_or(settings.admin.bind);
        let own = settings.knowledge.bind.map(|bind| listen(bind, "knowledge.bind")).transpose()?;
        let own_address = own.as_ref().and_then(|listener| listener.local_addr().ok());
        let knowledge_address = own_address.unwrap_or(address);
        let urls = Urls::configured(&settings, address, own_address);
        let (stop, stopping) = watch::channel(false);
        let house = Box::pin(House::build(settings, urls, (clock, chance), log, stopping.clone())).await?;
        let limits = Limits {
            connections: Arc::new(Semaphore::new(house.settings.http.connections_max.min(Semaphore::MAX_PERMITS))),
            head_deadline: house.settings.http.head_deadline,
            drain_deadline: house.settings.shutdown.drain_deadline / 2,
        };
        let admin_limits = Limits { connections: Arc::new(Semaphore::new(ADMIN_CONNECTIONS_MAX)), ..limits.clone() };
        let admin_service = Service::Admin(crate::admin::router(house.clone(), stopping.clone()));
        let mut listeners = vec![tokio::spawn(accept(
            public,
            Service::Public(crate::http::service(house.clone())),
            limits.clone(),
            stopping.clone(),
        ))];
        if let Some(own) = own {
            let service = Service::Public(crate::http::knowledge_service(house.clone()));
            listeners.push(tokio::spawn(accept(own, service, limits, stopping)));
        }
        // Operators watch the draining too, so their listener stops last: with the process.
        let admin = tokio::spawn(accept(admin, admin_service, admin_limits, watch::channel(false).1));
        Ok(Self { house, address, admin_address, knowledge_address, stop, listeners, admin })
    }

    /// Stops accepting, lets what is in progress finish, then drains everything that lives; at most `shutdown.drain_deadline`.
    pub async fn stop(mut self) -> Outcome {
        let deadline = Instant::now() + self.house.settings.shutdown.drain_deadline;
        // Fails only if the listener is gone already.
        let _ = self.stop.send(true);
        for listener in &mut self.listeners {
            // A listener that panicked has nothing left to finish.
            let _ = tokio::time::timeout_at(deadline, listener).await;
        }
        let left = deadline.saturating_duration_since(Instant::now()).max(MINIMAL_DRAIN);
        let outcome = self.house.root.drain(left).await;
        for listener in self.listeners.iter().chain([&self.admin]) {
            listener.abort();
        }
        self.house.close().await;
        outcome
    }

    /// Waits until the supervision has given up; a healthy server never gets there.
    pub async fn given_up(&self) -> Outcome {
        self.house.root.outcome().await
    }
}

/// Operators and their machines; more would be a mistake.
const ADMIN_CONNECTIONS_MAX: usize = 256;

/// What actors get to finish even if connections used up the whole deadline.
const MINIMAL_DRAIN: Duration = Duration::from_millis(500);

/// Connections that the kernel keeps waiting while many come at once; it takes the least of this and its own limit. A shorter queue
/// makes clients of a burst try again after whole seconds.
const BACKLOG: u32 = 16_384;

fn listen(address: SocketAddr, knob: &'static str) -> Result<TcpListener, StartError> {
    let bound = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A restart must not wait for connections of the process before it.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    bound().map_err(|source| StartError::Listen { address, knob, source })
}

/// The service of a listener.
#[derive(Debug, Clone)]
enum Service {
    /// One of the APIs.
    Public(Front),
    /// The operators' listener.
    Admin(Router),
}

impl Service {
    async fn answer(self, request: Request, peer: SocketAddr) -> Response {
        match self {
            Self::Public(front) => front.answer(request, peer).await,
            Self::Admin(router) => router.oneshot(request).await.unwrap_or_else(|never| match never {}),
        }
    }
}

#[derive(Debug, Clone)]
struct Limits {
    connections: Arc<Semaphore>,
    head_deadline: Duration,
    drain_deadline: Duration,
}

async fn accept(listener: TcpListener, service: Service, limits: Limits, mut stopping: watch::Receiver<bool>) {
    let graceful = GracefulShutdown::new();
    loop {
        // With every place taken nobody is accepted: clients wait in the kernel's queue, which is bounded too.
        let Ok(place) = Arc::clone(&limits.connections).acquire_owned().await else { break };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stopping) => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let conversation = converse(stream, peer, service.clone(), limits.head_deadline, graceful.watcher());
                tokio::spawn(async move {
                    // Clients break connections all the time; it is none of our errors.
                    if let Err(error) = conversation.await {
                        tracing::debug!(error = %error, "a connection ended early");
                    }
                    drop(place);
                });
            }
            Err(error) => {
                // Out of file descriptors, most likely: trying again at once would only burn the processor.
                tracing::warn!(error = %error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(limits.drain_deadline, graceful.shutdown()).await.is_err() {
        tracing::warn!("some connections did not finish in time");
    }
}

/// Waits until the listener is to stop; for ever when nobody can say so any more.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    if stopping.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// One connection, from its first request to its last.
async fn converse(
    stream: TcpStream,
    peer: SocketAddr,
    service: Service,
    head_deadline: Duration,
    graceful: Watcher,
) -> Result<(), hyper::Error> {
    // Answers are small and asked for one by one: waiting for more to send only adds delay.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(error = %error, "TCP_NODELAY could not be set");
    }
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let (service, request) = (service.clone(), request.map(axum::body::Body::new));
        async move { Ok::<_, Infallible>(service.answer(request, peer).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_deadline)
        .keep_alive(true)
        .serve_connection(TokioIo::new(stream), service);
    graceful.watch(connection).await
}
