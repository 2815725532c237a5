//! The listeners around the running server: start and shutdown.

mod accept;
pub mod descriptors;
mod head_bytes;
mod head_timer;
mod io_timeouts;
mod operator_socket;
mod place;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api::HttpState;
use api::addresses::Addresses;
use api::limits::RateLimiters;
use api::receiving::ReceiveMemory;
use app::config::reading::Layers;
use app::config::{Settings, Urls};
use app::installation::LogStart;
use app::phase::{Phase, Phases};
use app::services::oidc::Providers;
use app::{App, BuildError};
use axum::extract::FromRef;
use domain::live::Live;
use domain::{Clock, Rng};
use supervision::TreeExit;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::accept::{ConnectionLimits, Door, Service, accept};
use self::operator_socket::SocketFile;

/// A server that accepts connections.
#[derive(Debug)]
pub struct Server {
    /// The running server behind the listeners.
    pub app: App,
    /// The state of the HTTP surfaces.
    pub http: HttpState,
    /// Bound address of the public listener.
    pub address: SocketAddr,
    /// Bound address of the operator's listener.
    pub admin_address: SocketAddr,
    /// Bound address of the knowledge API.
    pub knowledge_address: SocketAddr,
    phases: Phases,
    listeners: Vec<JoinHandle<()>>,
    /// The operator's listener and socket.
    operators: Vec<JoinHandle<()>>,
    _socket_file: Option<SocketFile>,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener cannot bind its address.
    #[error("cannot listen on {address} ({setting})")]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// The setting that contains the address.
        setting: &'static str,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The server cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl Server {
    /// Binds the listeners, builds the server and starts to accept connections.
    pub async fn start(settings: Settings, clock: Clock, rng: Rng) -> Result<Self, StartError> {
        Self::start_with(settings.into(), clock, rng, LogStart::Continue).await
    }

    /// The same, with the places of the settings and a choice of the log's start.
    pub async fn start_with(configured: Layers, clock: Clock, rng: Rng, log: LogStart) -> Result<Self, StartError> {
        let settings = &configured.settings;
        app::telemetry::begin_counting();
        descriptors::raise();
        if let Some(warning) = descriptors::warning(&settings.http) {
            tracing::warn!("{warning}");
        }
        let public = listen(settings.http.bind, "http.bind")?;
        let admin = listen(settings.admin.bind, "admin.bind")?;
        let address = public.local_addr().unwrap_or(settings.http.bind);
        let admin_address = admin.local_addr().unwrap_or(settings.admin.bind);
        let own = settings.knowledge.bind.map(|bind| listen(bind, "knowledge.bind")).transpose()?;
        let own_address = own.as_ref().and_then(|listener| listener.local_addr().ok());
        let knowledge_address = own_address.unwrap_or(address);
        let urls = Urls::configured(settings, address, own_address);
        let phases = Phases::default();
        let providers = Providers::new(&settings.signin, &urls.base, &clock).map_err(BuildError::Providers)?;
        let app = Box::pin(App::build(configured, urls, (clock, rng), log)).await?;
        let state = api::state(app.clone(), providers, phases.clone(), web::for_browsers())?;
        let http = &app.settings.http;
        let limits = connection_limits(&app, Arc::clone(&state.memory));
        let places_total = descriptors::connections(http).min(Semaphore::MAX_PERMITS);
        let places = Arc::new(Semaphore::new(places_total));
        let per_address_max = app.live.part(|settings| settings.http.connections_per_address_max);
        let addresses = Addresses::new(per_address_max, &http.trusted_proxies);
        let public_door = || Door::Public { places: Arc::clone(&places), places_total, addresses: addresses.clone() };
        let service = Service::Public(api::service(state.clone(), web::router(&state)));
        let mut listeners = vec![tokio::spawn(accept(public, service, public_door(), limits.clone(), phases.clone()))];
        if let Some(own) = own {
            let service = Service::Public(api::knowledge_service(state.clone()));
            listeners.push(tokio::spawn(accept(own, service, public_door(), limits.clone(), phases.clone())));
        }
        let connections_max = app.settings.admin.connections_max;
        let listeners_of = crate::admin::Listeners { public: address, operator: admin_address };
        let operators_door = || Door::Operators { connections_max, open: VecDeque::new() };
        let rates = Arc::<RateLimiters>::from_ref(&state);
        let providers = Arc::<Providers>::from_ref(&state);
        let admin_service = crate::admin::router(app.clone(), phases.clone(), listeners_of, (&providers, &rates));
        let admin_service = Service::Router(admin_service);
        // The operators' listener stops last, with the process, so that operators can observe the draining.
        let heads_of_operators = ReceiveMemory::new(
            app.live.part(move |settings| settings.http.head_bytes_max.saturating_mul(connections_max)),
        );
        let admin_limits = connection_limits(&app, heads_of_operators);
        let mut operators = Vec::new();
        let mut socket_file = None;
        if let Some((socket, file)) = operator_socket::bind(&app.settings) {
            let (service, limits) = (admin_service.clone(), admin_limits.clone());
            operators.push(tokio::spawn(accept(socket, service, operators_door(), limits, Phases::default())));
            socket_file = Some(file);
        }
        operators.push(tokio::spawn(accept(admin, admin_service, operators_door(), admin_limits, Phases::default())));
        Ok(Self {
            app,
            http: state,
            address,
            admin_address,
            knowledge_address,
            phases,
            listeners,
            operators,
            _socket_file: socket_file,
        })
    }

    /// Reports itself as unready and continues to serve for `shutdown.lame_duck`, so that balancers and clients select another node before
    /// [`Self::stop`].
    pub async fn lame_duck(&self) {
        let duration = self.app.live.get().shutdown.lame_duck;
        if duration.is_zero() {
            return;
        }
        tracing::info!(shutdown.lame_duck = ?duration, "unready: connections are accepted and requests are answered for this long");
        self.phases.lame_duck(duration).await;
    }

    /// Stops accepting connections, waits for requests in progress, then drains the actors; at most `shutdown.drain_deadline`.
    pub async fn stop(mut self) -> TreeExit {
        let deadline = Instant::now() + self.app.live.get().shutdown.drain_deadline;
        tracing::info!("the listeners close; requests in progress finish");
        self.phases.enter(Phase::Stopping);
        // Other nodes take over the batches while this node finishes its requests.
        self.app.ingestion.hand_over();
        for listener in &mut self.listeners {
            // A listener that panicked has no work to finish.
            let _ = tokio::time::timeout_at(deadline, listener).await;
        }
        tracing::info!("the actors finish their messages");
        let left = deadline.saturating_duration_since(Instant::now()).max(MINIMAL_DRAIN);
        let outcome = self.app.root.drain(left).await;
        for listener in self.listeners.iter().chain(&self.operators) {
            listener.abort();
        }
        self.app.close(deadline).await;
        tracing::info!("the server has stopped");
        outcome
    }

    /// Waits until the supervisor gives up; does not return on a healthy server.
    pub async fn given_up(&self) -> TreeExit {
        self.app.root.outcome().await
    }
}

/// The limits of a listener's connections. Their heads share this memory.
fn connection_limits(app: &App, memory: Arc<ReceiveMemory>) -> Live<ConnectionLimits> {
    app.live.part(move |settings| ConnectionLimits::of(settings, &memory))
}

/// Minimum time for the actors to finish, even if connections used up the whole deadline.
const MINIMAL_DRAIN: Duration = Duration::from_millis(500);

/// Maximum number of connections in the kernel's accept queue; the kernel uses the minimum of this and its own limit. With a shorter queue,
/// clients in a burst retry after whole seconds.
const BACKLOG: u32 = 16_384;

fn listen(address: SocketAddr, setting: &'static str) -> Result<TcpListener, StartError> {
    let bound = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A restart must not wait for connections of the previous process.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    bound().map_err(|source| StartError::Listen { address, setting, source })
}
