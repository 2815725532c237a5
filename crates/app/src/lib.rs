//! The running server without its listeners: configuration, databases, actors and use cases.
//!
//! [`App::build`] wires it top-down: open the databases ([`installation`]), build the services, start the actors. [`services`] has one use
//! case per file.

#[macro_use(boxed)]
extern crate domain;

pub mod acts;
mod builder;
pub mod config;
pub mod effect;
mod error;
pub mod held;
mod in_force;
pub mod installation;
pub mod keys;
mod knowledge;
mod live;
pub mod nodes;
pub mod objects;
pub mod overrides;
pub mod pauses;
pub mod phase;
pub mod queues;
mod reload;
pub mod services;
mod supervised;
pub mod telemetry;

use std::sync::{Arc, Weak};
use std::time::Duration;

use ::knowledge::Pipeline;
use ::knowledge::embed::Embedder;
use ::knowledge::search::Search;
use actors::anchor::Anchor;
use actors::budget::Budgets;
use actors::claim::Claims;
use actors::device::DeviceCodes;
use actors::ingest::Ingestion;
use actors::intake::Intake;
use actors::jitter;
use actors::lookup::MachineLookup;
use actors::mail::Mail;
use actors::meter::Usage;
use actors::node::NodeTable;
use actors::outbox::Outbox;
use actors::presence::Presence;
use actors::service_pause::ServicePauses;
use actors::signin::SignIns;
use actors::upstream::Upstream;
use actors::watch::{OrderExecutor, OverrideFollower};
use actors::witness::Witnesses;
use domain::ids::NodeId;
use domain::node::CLOCK_DIFFERENCE_MAX;
use domain::prices::PriceTable;
use domain::registry::Registry;
use domain::secret::CodeKey;
use domain::{Clock, Rng};
use futures_util::future::join_all;
use store::Store;
use supervision::periodic::PassError;
use supervision::{Root, RootSettings};
use tokio::time::Instant;

use self::builder::Builder;
pub use self::builder::{OUTBOX, host_name};
pub use self::error::BuildError;
pub use self::in_force::{LiveSettings, NodeOverrides};
pub use self::knowledge::extractor;
pub use self::live::{ReloadFault, SettingChange, of_node, overlaid};
pub use self::reload::{ReloadRefusal, Reloaded};
use self::supervised::{Supervised, Wakers};
use crate::config::reading::Layers;
use crate::config::{Settings, Urls};
use crate::installation::LogStart;

/// Maximum time for the last writes of counters at shutdown.
const SETTLE_DEADLINE: Duration = Duration::from_secs(2);

/// Time for closing the databases, even if requests and actors used up the whole deadline.
const CLOSE_MIN: Duration = Duration::from_millis(500);

/// The running server without its listeners. Clones share it.
#[derive(Debug, Clone)]
pub struct App(Arc<AppState>);

/// The parts of an [`App`].
#[derive(Debug)]
pub struct AppState {
    /// The configuration of the start.
    pub settings: Settings,
    /// The settings in force.
    pub live: LiveSettings,
    /// The URLs under which clients reach the server.
    pub urls: Arc<Urls>,
    /// The current time.
    pub clock: Clock,
    /// The source of ids, secrets and codes.
    pub rng: Rng,
    /// The main database.
    pub store: Store,
    /// The server's key for codes and sealed values.
    pub codes: CodeKey,
    /// The registry of event types.
    pub registry: Arc<Registry>,
    /// The prices of models.
    pub prices: Arc<PriceTable>,
    /// Finds computers by their secrets.
    pub lookup: MachineLookup,
    /// Registration and claims of agents.
    pub claims: Claims,
    /// Device codes, with which computers are attached.
    pub devices: DeviceCodes,
    /// Mail to people.
    pub mail: Mail,
    /// Sign-in by a mailed code.
    pub signins: SignIns,
    /// The intake, which checks, forwards and holds events.
    pub intake: Intake,
    /// The service's own events, on their way to the statistics service.
    pub outbox: Outbox,
    /// Parts of the service that an operator has paused.
    pub pauses: ServicePauses,
    /// The statistics service, embedded or external.
    pub upstream: Upstream,
    /// Store the newest checkpoints of the parts of the embedded log in the main database.
    pub anchors: Vec<Anchor>,
    /// Ask witnesses to cosign the newest checkpoints.
    pub witnesses: Vec<Witnesses>,
    /// Counts of forwarded events.
    pub usage: Usage,
    /// The time at which each computer was last seen.
    pub presence: Presence,
    /// Quotas of event senders.
    pub budgets: Budgets,
    /// Batches of the knowledge API.
    pub ingestion: Ingestion,
    /// This node among the others.
    pub nodes: NodeTable,
    /// Executes orders of operators to this node.
    pub orders: OrderExecutor,
    /// Search of the knowledge API.
    pub search: Search<Embedder>,
    /// The stages that turn an added item into a memory.
    pub pipeline: Pipeline,
    /// The supervisor of all actors.
    pub root: Root,
}

/// A weak reference to an [`App`].
#[derive(Debug, Clone)]
pub struct WeakApp(Weak<AppState>);

impl WeakApp {
    /// The server, if it still exists.
    pub fn upgrade(&self) -> Option<App> {
        self.0.upgrade().map(App)
    }
}

impl std::ops::Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.0
    }
}

impl App {
    /// A weak reference to the server.
    pub fn downgrade(&self) -> WeakApp {
        WeakApp(Arc::downgrade(&self.0))
    }

    /// Opens the databases, builds the services and starts the actors.
    #[boxed]
    pub async fn build(
        configured: Layers,
        urls: Urls,
        (clock, rng): (Clock, Rng),
        start: LogStart,
    ) -> Result<Self, BuildError> {
        let settings = configured.settings.clone();
        let live = LiveSettings::new(configured);
        let (store, service) = installation::open(&settings, &clock, &rng, start).await?;
        follow_clock(&store, &clock).await;
        let node = NodeId::from(rng.uuid_v7(clock.now()));
        let store = installation::with_memory(store, &settings, &clock).await?;
        let store = store.with_holder(node).with_notices(live.part(Settings::notices));
        let registry = Arc::new(settings.registry().map_err(BuildError::Registry)?);
        let (upstream, parts) = installation::with_parts(service, &settings, &store, (&clock, &rng), &registry).await?;
        follow_database(&live, &store, &upstream);
        let prices = Arc::new(settings.prices().map_err(BuildError::Prices)?);
        let pauses = ServicePauses::new(&clock);
        let builder = Builder {
            settings: &settings,
            live: &live,
            store: &store,
            clock: &clock,
            rng: &rng,
            urls: &urls,
            node,
            pauses: pauses.clone(),
        };
        follow_pauses(&store, &clock, &pauses).await;
        let (keys, codes) = builder.keys().await?;
        let claims = builder.claims(codes.clone(), &keys)?;
        let devices = builder.devices(codes.clone());
        let (mail, mailer) = builder.mail()?;
        let signins = builder.signins(&mail, codes.clone());
        let knowledge = builder.knowledge().await?;
        let lookup = builder.lookup();
        let counters = builder.counters(&upstream);
        let hold = builder.hold();
        let intake = builder.intake(&upstream, &registry, &counters, &hold);
        let outbox = builder.outbox(&upstream);
        let anchors = installation::anchors_of(&store, &upstream, &clock);
        let webhooks = builder.webhooks()?;
        let rules = builder.rules(&upstream, &registry, &mail);
        let nodes = builder.nodes(&upstream, &knowledge.ingestion);
        let witnesses = installation::witnesses_of(&upstream, &settings)?;

        let (overrides, orders) = (OverrideFollower::default(), OrderExecutor::default());
        let supervised = Supervised {
            builder: &builder,
            lookup: &lookup,
            upstream: &upstream,
            anchors: &anchors,
            witnesses: &witnesses,
            parts: parts.as_ref(),
            memory: builder.memory_keeper(&knowledge.search),
            hold: &hold,
            mail: (&mail, mailer),
            claims: &claims,
            devices: &devices,
            intake: &intake,
            knowledge: &knowledge,
            outbox: &outbox,
            counters: &counters,
            nodes: &nodes,
            webhooks: webhooks.as_ref(),
            rules: rules.as_ref(),
            overrides: overrides.clone(),
            orders: orders.clone(),
            wakers: Wakers::default(),
        };
        let root = start_actors(&rng, supervised).await?;
        let app = Self(Arc::new(AppState {
            urls: Arc::new(urls),
            live,
            settings,
            clock,
            rng,
            store,
            codes,
            registry,
            prices,
            lookup,
            claims,
            devices,
            mail,
            signins,
            intake,
            outbox,
            pauses,
            upstream,
            anchors,
            witnesses,
            usage: counters.usage,
            presence: counters.presence,
            budgets: counters.budgets,
            ingestion: knowledge.ingestion,
            nodes,
            orders,
            search: knowledge.search,
            pipeline: knowledge.pipeline,
            root,
        }));
        app.follow_overrides(&overrides).await;
        app.keyed_actors().quarantine(&app.pauses.in_force(), app.clock.now());
        Ok(app)
    }

    /// Puts the overrides of settings in force, now and with each pass of the actor that reads changes.
    async fn follow_overrides(&self, overrides: &OverrideFollower) {
        let found = self.store.setting_overrides(self.clock.now()).await;
        let followed = match found {
            Ok(found) => self.override_settings(found).await.map_err(|error| domain::reasons(&error)),
            Err(error) => Err(domain::reasons(&error)),
        };
        if let Err(error) = followed {
            tracing::warn!(error, "overrides of settings are not in force yet");
        }
        let app = self.downgrade();
        overrides.set(Box::new(move |found| {
            let app = app.upgrade();
            Box::pin(async move {
                match app {
                    Some(app) => Ok(app.override_settings(found).await?),
                    None => Ok(()),
                }
            })
        }));
    }
}

/// Puts changed timeouts of the databases in force.
fn follow_database(live: &LiveSettings, store: &Store, upstream: &Upstream) {
    let (store, upstream) = (store.clone(), upstream.clone());
    live.follow(move |Settings { database, .. }| {
        store.retune(database);
        upstream.retune(database);
    });
}

/// Reads the pauses before the first request. If the read fails, the actor that reads changes reads them.
async fn follow_pauses(store: &Store, clock: &Clock, pauses: &ServicePauses) {
    match store.service_pauses(clock.now()).await {
        Ok(found) => pauses.replace(found),
        Err(error) => tracing::warn!(error = domain::reasons(&error), "pauses are not in force yet"),
    }
}

/// Number of tries to read the database's clock at start.
const CLOCK_TRIES: u32 = 5;

/// Sets the clock to the database's, by which nodes compare times. If the read fails, the node's actor sets the clock later.
async fn follow_clock(store: &Store, clock: &Clock) {
    if !store.pool().is_postgres() || clock.machine_now().is_none() {
        return;
    }
    for _ in 0..CLOCK_TRIES {
        match store.clock_follow(clock).await {
            Ok(Some(ahead)) => {
                if ahead.abs() > CLOCK_DIFFERENCE_MAX {
                    let seconds = ahead.as_seconds_f64();
                    tracing::warn!(
                        seconds,
                        "this machine's clock is ahead of the database's, which the server follows: synchronise them (NTP)"
                    );
                }
                return;
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(error = domain::reasons(&error), "the clock of the database could not be read");
            }
        }
    }
    tracing::warn!("the database answers too slowly to read its clock; until it does, this machine's clock is used");
}

/// Starts the supervisor and waits until every actor runs.
async fn start_actors(rng: &Rng, supervised: Supervised<'_>) -> Result<Root, BuildError> {
    let root = Root::start(RootSettings::default(), jitter(rng), supervised.children()).await;
    let root = root.map_err(|error| BuildError::Actors(domain::reasons(&error)))?;
    root.up().await.map_err(|outcome| BuildError::Actors(format!("{outcome:?}")))?;
    Ok(root)
}

impl AppState {
    /// Writes the counters that exist only in memory and closes the databases, until `deadline` and for at least `CLOSE_MIN`. Called after
    /// all actors have stopped.
    #[boxed]
    pub async fn close(&self, deadline: Instant) {
        let deadline = deadline.max(Instant::now() + CLOSE_MIN);
        if tokio::time::timeout_at(deadline, self.settle_and_close()).await.is_err() {
            tracing::warn!("the databases did not close before shutdown.drain_deadline; the process ends without that");
        }
    }

    async fn settle_and_close(&self) {
        let settle = async {
            let counts = self.usage.finish().await.and(self.budgets.settle().await);
            let counts = counts.and(self.presence.settle().await);
            let remembered = join_all(self.anchors.iter().map(Anchor::settle)).await;
            let remembered = remembered.into_iter().collect::<Result<(), _>>().map_err(PassError::from);
            let left = self.nodes.leave().await.map_err(PassError::from);
            counts.and(remembered).and(left)
        };
        // Releases the lease concurrently, so that another node signs the log at once.
        let (settled, _) = tokio::join!(
            tokio::time::timeout(SETTLE_DEADLINE, settle),
            tokio::time::timeout(SETTLE_DEADLINE, self.upstream.give_leases_back()),
        );
        if let Err(error) = settled.unwrap_or_else(|_| Err("the store did not answer".into())) {
            tracing::warn!(
                error = domain::reasons(&*error),
                "the last counts of usage and of budgets, who was seen last, the newest checkpoint, or the end of this node could not be written"
            );
        }
        // The log shares connections with the main database, and releases its lease before they are closed.
        self.upstream.close().await;
        self.store.close().await;
    }

    /// Whether a language model judges new content of the knowledge API.
    pub fn has_language_model(&self) -> bool {
        self.pipeline.stages().filter.has_model()
    }
}
