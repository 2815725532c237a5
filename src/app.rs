//! The whole house: every room built from the settings, from the ground up, on one screen.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actors::anchor::Anchor;
use actors::append::Appender;
use actors::backfill::Backfill;
use actors::budget::{BudgetKeeper, Budgets};
use actors::claim::{self, Claims, Keyring};
use actors::device::{self, DeviceCodes};
use actors::ingest::{self, Ingestion, OrphanedBatches};
use actors::intake::{EventProcessor, HeldBatch, Intake};
use actors::janitor::Janitor;
use actors::lookup::{MachineLookup, SecretBatch};
use actors::mail::{self, Mail, Mailer, Transport};
use actors::meter::{Usage, UsageMeter};
use actors::outbox::Outbox;
use actors::presence::{Presence, PresencePass};
use actors::sequence::Sequence;
use actors::signin::{self, SignIns};
use actors::upstream::Upstream;
use actors::watch::ChangeFeed;
use actors::{ActorKind, jitter};
use chrono::TimeDelta;
use dashmap::DashMap;
use domain::secret::CodeKey;
use domain::token::AssertionKey;
use domain::{Clock, Rng, Timestamp};
use knowledge::Pipeline;
use knowledge::embed::Embedder;
use knowledge::extract::{Extractor, WorkerCommand};
use knowledge::fetch::{Fetcher, FetcherDependencies, FetcherError};
use knowledge::filter::Filter;
use knowledge::index::database::PrepareError;
use knowledge::prepare::PipelineStages;
use knowledge::search::Search;
use serde_json::Value;
use store::Store;
use supervision::commit::Committer;
use supervision::periodic::{Pass, PassError, Periodic, Schedule};
use supervision::{ChildSpec, Handle, Root};
use tokio::sync::watch;

use crate::cli::EXTRACT_WORKER;
use crate::config::{KnowledgeSettings, Settings};
use crate::http::body::slow::SlowBodies;
use crate::http::discovery::Resources;
use crate::http::gate::Gate;
use crate::http::guide::Guides;
use crate::http::knowledge::places::Places;
use crate::http::limits::Limits;
use crate::http::openapi::Description;
use crate::http::seal::Seal;
use crate::installation::{self, LogStart, StartRefusal};
use crate::telemetry::Requests;
use crate::web::signin::oidc::Providers;

/// What every handler has at hand. Clones are the same house.
#[derive(Debug, Clone)]
pub struct App(Arc<AppState>);

/// The rooms.
#[derive(Debug)]
pub struct AppState {
    /// Every knob.
    pub settings: Settings,
    /// How the outside reaches us, without a slash at the end.
    pub base_url: String,
    /// How clients reach the knowledge API, without a slash at the end.
    pub rag_url: String,
    /// Time.
    pub clock: Clock,
    /// Chance.
    pub rng: Rng,
    /// The rows.
    pub store: Store,
    /// Computers by their secrets.
    pub lookup: MachineLookup,
    /// Registration and claims.
    pub claims: Claims,
    /// Attachment of computers.
    pub devices: DeviceCodes,
    /// Letters to people.
    pub mail: Mail,
    /// Sign-in.
    pub signins: SignIns,
    /// OpenID providers.
    pub providers: Providers,
    /// Events.
    pub intake: Intake,
    /// What the service itself reports.
    pub outbox: Outbox,
    /// The statistics service.
    pub upstream: Upstream,
    /// Remembers the embedded log in the facts.
    pub anchor: Option<Anchor>,
    /// What was used.
    pub usage: Usage,
    /// Who showed themselves.
    pub presence: Presence,
    /// Budgets of senders without an account.
    pub budgets: Budgets,
    /// Batches of the knowledge API.
    pub ingestion: Ingestion,
    /// Searching what was added.
    pub search: Search<Embedder>,
    /// From one item to what is kept of it.
    pub pipeline: Pipeline,
    /// Which large bodies are in memory.
    pub large_bodies: Places,
    /// Which event streams are open.
    pub streams: Places,
    /// Turns true when the server stops: whoever is told something ends then.
    pub closing: watch::Receiver<bool>,
    /// How often one address may try.
    pub limits: Limits,
    /// What agents read.
    pub guides: Guides,
    /// What asks for a credential.
    pub resources: Resources,
    /// The body of `GET /api/v1/events/registry`.
    pub registry_description: Value,
    /// The machine-readable description of both surfaces.
    pub description: Description,
    /// How many requests may be in progress.
    pub gate: Arc<Gate>,
    /// Bodies that are awaited.
    pub slow_bodies: SlowBodies,
    /// Seals the values that browsers store for the server.
    pub seal: Seal,
    /// Counts answered requests.
    pub requests: Requests,
    /// Supervision of everything that lives.
    pub root: Root,
}

impl std::ops::Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.0
    }
}

/// Why the house cannot be built; each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A database.
    #[error("the database: {0}")]
    Store(#[from] store::StoreError),
    /// The embedded log.
    #[error("the embedded statistics service: {0}")]
    Log(#[from] statistics::log::LogError),
    /// The client of an external statistics service.
    #[error("the external statistics service: {0}")]
    Client(#[from] statistics::client::ClientError),
    /// Facts and log that do not belong together.
    #[error(transparent)]
    Installation(#[from] StartRefusal),
    /// A new epoch of the log.
    #[error("a new epoch of the event log cannot begin: {0}")]
    Epoch(String),
    /// Signing keys.
    #[error("the signing keys: {0}")]
    Keys(#[from] domain::token::KeyError),
    /// The event registry.
    #[error("the event registry: {0}")]
    Registry(String),
    /// Letters.
    #[error("the mail: {0}")]
    Mail(String),
    /// OpenID providers.
    #[error("the OpenID providers: {0}")]
    Providers(String),
    /// The knowledge API.
    #[error("the knowledge API: {0}")]
    Knowledge(String),
    /// What agents read.
    #[error("the guides: {0}")]
    Guides(#[from] askama::Error),
    /// Supervision.
    #[error("the actors did not start: {0}")]
    Actors(String),
}

impl App {
    /// Builds every room and starts everything that lives.
    pub async fn build(
        settings: Settings,
        Urls { base: base_url, rag: rag_url }: Urls,
        (clock, rng): (Clock, Rng),
        start: LogStart,
        closing: watch::Receiver<bool>,
    ) -> Result<Self, BuildError> {
        let (store, upstream) = installation::open(&settings, &clock, &rng, start).await?;
        let registry = Arc::new(settings.registry().map_err(BuildError::Registry)?);
        let keep_retired_for = settings.claims.keep_keys_for();
        store.assertion_keys_ensure(clock.now(), &rng).await?;
        let keys = store.assertion_keys(clock.now(), keep_retired_for).await?;
        let codes = store.code_key(&rng).await?;
        let ground = AppBuilder { settings: &settings, store: &store, clock: &clock, rng: &rng, base_url: &base_url };
        let claims = ground.claims(codes.clone(), &keys)?;
        let devices = ground.devices(codes.clone());
        let (mail, mailer) = ground.letters()?;
        let signins = ground.signins(&mail, codes.clone());
        let providers = Providers::new(&settings.signin, &base_url, &clock).map_err(BuildError::Providers)?;
        let library = ground.library(&rag_url)?;
        library.search.index().prepare().await?;
        let hold = Handle::new(ActorKind::Hold, settings.actors.of(ActorKind::Hold));
        let usage = Usage::new(store.clone(), &upstream);
        let presence = Presence::new(store.clone());
        let budgets = Budgets::new(store.clone(), settings.events.unattached);
        let desk = EventProcessor {
            tally: usage.tally(),
            store: store.clone(),
            budgets: budgets.clone(),
            hold: hold.clone(),
            upstream: upstream.clone(),
            registry: Arc::clone(&registry),
            clock: clock.clone(),
            rng: rng.clone(),
            held_lately: DashMap::new(),
        };
        let limits = settings.actors.of(ActorKind::Intake);
        let intake = Intake::new(desk, settings.events.body_bytes_max, settings.agent_kinds(), limits);

        let batch_max = settings.log.batch_max;
        let mut children = Vec::new();
        let (lookup, grouped) = lookup(&store, &settings);
        children.extend(grouped);
        let anchor = installation::anchor_of(&store, &upstream, &clock);
        children.extend(embedded(&upstream, anchor.as_ref(), &settings, &rng));
        let ledger = HeldBatch { store: store.clone(), quotas: settings.events.held };
        children.push(ChildSpec::singleton(&hold, move || (Committer::new(ledger.clone(), batch_max), ())));
        children.push(ChildSpec::singleton(mail.handle(), move || (mailer.clone(), ())));
        children.push(claims.ceremonies().child(claims.prototype()));
        children.push(devices.pollers().child(devices.prototype()));
        children.push(intake.spec(settings.events.workers));
        children.extend(library.children(&settings, &rng));
        let outbox =
            Outbox { store: store.clone(), upstream: upstream.clone(), clock: clock.clone(), rng: rng.clone() };
        children.push(keeper(ActorKind::Outbox, outbox.clone(), settings.consent.outbox_every, &settings, &rng));
        let watch = ground.watch(&claims, &devices, keep_retired_for);
        children.push(keeper(ActorKind::Watch, watch, SECOND, &settings, &rng));
        children.push(keeper(ActorKind::Meter, UsageMeter(usage.clone()), SECOND, &settings, &rng));
        children.push(keeper(ActorKind::Presence, PresencePass(presence.clone()), SECOND, &settings, &rng));
        children.push(keeper(ActorKind::Budget, BudgetKeeper(budgets.clone()), SECOND, &settings, &rng));
        let janitor = Janitor { store: store.clone(), clock: clock.clone(), settings: settings.janitor.purge };
        children.push(keeper(ActorKind::Janitor, janitor, settings.janitor.every, &settings, &rng));

        let root = Root::start(settings.shutdown.root(), jitter(&rng), children).await;
        let root = root.map_err(|error| BuildError::Actors(error.to_string()))?;
        root.up().await.map_err(|outcome| BuildError::Actors(format!("{outcome:?}")))?;
        let batch = &settings.knowledge.batch;
        let gate = Arc::new(Gate::new(settings.http.requests_max));
        Ok(Self(Arc::new(AppState {
            limits: Limits::new(&settings.limits),
            guides: Guides::new(&base_url, &rag_url, &settings)?,
            resources: Resources::of_the_table(),
            registry_description: registry.describe(),
            description: Description::new(&settings, &Urls { base: base_url.clone(), rag: rag_url.clone() }),
            requests: Requests::default(),
            slow_bodies: SlowBodies::new(&settings.http, Arc::clone(&gate)),
            seal: Seal::new(codes),
            gate,
            large_bodies: Places::new(batch.large_bodies_max, batch.large_bodies_per_account_max),
            streams: Places::new(batch.streams_max, batch.streams_per_account_max),
            closing,
            settings,
            base_url,
            rag_url,
            clock,
            rng,
            store,
            lookup,
            claims,
            devices,
            mail,
            signins,
            providers,
            intake,
            outbox,
            upstream,
            anchor,
            usage,
            presence,
            budgets,
            ingestion: library.ingestion,
            search: library.search,
            pipeline: library.pipeline,
            root,
        })))
    }
}

impl From<PrepareError> for BuildError {
    fn from(error: PrepareError) -> Self {
        match error {
            PrepareError::Store(error) => Self::Store(error),
            absent @ PrepareError::Absent(_) => Self::Knowledge(absent.to_string()),
        }
    }
}

/// Finds computers by their secrets; with the actor that groups requests on PostgreSQL.
fn lookup(store: &Store, settings: &Settings) -> (MachineLookup, Option<ChildSpec>) {
    if !store.pool().is_postgres() {
        return (MachineLookup::InPlace(store.clone()), None);
    }
    let group = Handle::new(ActorKind::Lookup, settings.actors.of(ActorKind::Lookup));
    let (ledger, batch_max) = (SecretBatch(store.clone()), settings.log.batch_max);
    let child = ChildSpec::singleton(&group, move || (Committer::new(ledger.clone(), batch_max), ()));
    (MachineLookup::Grouped(group), Some(child))
}

/// How the outside reaches us, without slashes at the ends.
#[derive(Debug, Clone)]
pub struct Urls {
    /// `{base_url}`
    pub base: String,
    /// `{rag_url}`
    pub rag: String,
}

impl Urls {
    /// As the configuration has them; where it says nothing, those of the listeners.
    pub fn configured(settings: &Settings, public: SocketAddr, knowledge: Option<SocketAddr>) -> Self {
        let base = settings.http.base_url.clone().unwrap_or_else(|| format!("http://{public}"));
        let rag = settings.knowledge.base_url.clone().or_else(|| Some(format!("http://{}", knowledge?)));
        Self { rag: rag.unwrap_or_else(|| base.clone()), base }
    }
}

/// The folder in the data folder where letters go without a mail server.
pub const OUTBOX: &str = "outbox";

/// The pause of those that only look after what changed.
const SECOND: Duration = Duration::from_secs(1);

/// An actor that does one thing again and again; a pass that takes a minute is cut off.
fn keeper<P: Pass>(kind: ActorKind, pass: P, every: Duration, settings: &Settings, rng: &Rng) -> ChildSpec {
    let handle = Periodic::<P>::handle(kind, settings.actors.of(kind));
    let rhythm = Schedule { every, deadline: Duration::from_mins(1) };
    Periodic::new(kind, pass, rhythm, jitter(rng)).child(&handle)
}

/// What lives in the embedded statistics service, where that is the one that is asked.
fn embedded(upstream: &Upstream, anchor: Option<&Anchor>, settings: &Settings, rng: &Rng) -> Vec<ChildSpec> {
    let (Upstream::Embedded { append, log }, Some(anchor)) = (upstream, anchor) else { return Vec::new() };
    let appender = Appender::new(log.clone(), settings.log.batch_max);
    let sequence = Sequence { log: log.clone(), events_max: settings.log.sequence_max };
    vec![
        ChildSpec::singleton(append, move || (appender.clone(), ())),
        keeper(ActorKind::Sequence, sequence, settings.log.checkpoint_every, settings, rng),
        keeper(ActorKind::Anchor, anchor.clone(), settings.log.remember_every, settings, rng),
    ]
}

/// The rooms of the knowledge API.
struct KnowledgeServices {
    pipeline: Pipeline,
    search: Search<Embedder>,
    ingestion: Ingestion,
}

impl KnowledgeServices {
    /// What lives in them.
    fn children(&self, settings: &Settings, rng: &Rng) -> [ChildSpec; 3] {
        let (store, embedder) = (self.ingestion.store().clone(), self.pipeline.stations().embedder.clone());
        let (backfill, every) =
            (Backfill { store, embedder, index: self.search.index().clone() }, settings.knowledge.embed_missing_every);
        [
            self.ingestion.batches().child(self.ingestion.prototype()),
            keeper(ActorKind::Drift, OrphanedBatches(self.ingestion.clone()), SECOND, settings, rng),
            keeper(ActorKind::Backfill, backfill, every, settings, rng),
        ]
    }
}

/// What the rooms stand on.
struct AppBuilder<'g> {
    settings: &'g Settings,
    store: &'g Store,
    clock: &'g Clock,
    rng: &'g Rng,
    base_url: &'g str,
}

impl AppBuilder<'_> {
    /// The way to people, and the actor behind it.
    fn letters(&self) -> Result<(Mail, Mailer), BuildError> {
        let outbox = self.settings.data.dir.join(OUTBOX);
        let mailer = Mailer::new(mail::Dependencies {
            store: self.store.clone(),
            clock: self.clock.clone(),
            rng: self.rng.clone(),
            transport: Transport::new(&self.settings.mail, outbox).map_err(BuildError::Mail)?,
            settings: self.settings.mail.clone(),
        });
        Ok((Mail::new(self.settings.actors.of(ActorKind::Mail)), mailer))
    }

    /// Notices what operators and other nodes changed.
    fn watch(&self, claims: &Claims, devices: &DeviceCodes, keep_retired_for: TimeDelta) -> ChangeFeed {
        ChangeFeed {
            store: self.store.clone(),
            clock: self.clock.clone(),
            claims: claims.clone(),
            devices: devices.clone(),
            keep_retired_for,
        }
    }

    fn claims(&self, codes: CodeKey, keys: &[AssertionKey]) -> Result<Claims, BuildError> {
        let dependencies = claim::Dependencies {
            store: self.store.clone(),
            clock: self.clock.clone(),
            rng: self.rng.clone(),
            codes,
            keyring: Keyring::new(self.base_url.to_owned(), keys)?,
            settings: self.settings.claims.clone(),
            base_url: self.base_url.to_owned(),
        };
        Ok(Claims::new(dependencies, self.settings.actors.of(ActorKind::Claims)))
    }

    fn devices(&self, codes: CodeKey) -> DeviceCodes {
        let dependencies = device::Dependencies {
            store: self.store.clone(),
            clock: self.clock.clone(),
            rng: self.rng.clone(),
            codes,
            settings: self.settings.devices.clone(),
            base_url: self.base_url.to_owned(),
        };
        DeviceCodes::new(dependencies, self.settings.actors.of(ActorKind::Devices))
    }

    fn library(&self, rag_url: &str) -> Result<KnowledgeServices, BuildError> {
        let pipeline = self.pipeline()?;
        let (embedder, settings) = (pipeline.stations().embedder.clone(), self.settings.knowledge.search.clone());
        let ingestion = self.ingestion(&pipeline, rag_url);
        Ok(KnowledgeServices { search: Search::new(self.store.clone(), embedder, settings), ingestion, pipeline })
    }

    /// The way of what is added, from an address to vectors.
    fn pipeline(&self) -> Result<Pipeline, BuildError> {
        let knowledge = &self.settings.knowledge;
        let failed = |why: &dyn std::fmt::Display| BuildError::Knowledge(why.to_string());
        Ok(Pipeline::new(PipelineStages {
            fetcher: Arc::new(self.fetcher().map_err(|error| failed(&error))?),
            extractor: extractor(knowledge).map_err(|error| failed(&error))?,
            filter: Filter::new(&knowledge.llm).map_err(|error| failed(&error))?,
            chunk: knowledge.chunk.clone(),
            embedder: Embedder::new(&knowledge.embedding, self.rng).map_err(|error| failed(&error))?,
        }))
    }

    fn fetcher(&self) -> Result<Fetcher, FetcherError> {
        let surroundings = FetcherDependencies::system(self.base_url, self.clock.clone(), self.rng.clone());
        Fetcher::new(self.settings.knowledge.fetch.clone(), surroundings)
    }

    fn ingestion(&self, pipeline: &Pipeline, rag_url: &str) -> Ingestion {
        let dependencies = ingest::Dependencies {
            store: self.store.clone(),
            clock: self.clock.clone(),
            rng: self.rng.clone(),
            pipeline: pipeline.clone(),
            settings: self.settings.knowledge.batch.clone(),
            memories_max: self.settings.knowledge.memories_per_account_max,
            rag_url: rag_url.to_owned(),
            runner: self.rng.uuid_v7(self.clock.now()).to_string(),
        };
        Ingestion::new(dependencies, self.settings.actors.of(ActorKind::Batches))
    }

    fn signins(&self, mail: &Mail, codes: CodeKey) -> SignIns {
        SignIns::new(signin::Dependencies {
            store: self.store.clone(),
            clock: self.clock.clone(),
            rng: self.rng.clone(),
            codes,
            mail: mail.clone(),
            base_url: self.base_url.to_owned(),
            create_account: self.settings.signin.create_account,
            codes_per_hour: self.settings.signin.codes_per_hour,
            codes_per_hour_total: self.settings.signin.codes_per_hour_total,
            session_valid_for: self.settings.sessions.valid_for,
        })
    }
}

/// The way to the workers that read pages and PDFs.
pub fn extractor(settings: &KnowledgeSettings) -> std::io::Result<Extractor> {
    let command = match &settings.worker {
        Some(program) => WorkerCommand { program: program.clone(), args: vec![EXTRACT_WORKER.into()] },
        None => WorkerCommand::of_this_program(&[EXTRACT_WORKER])?,
    };
    Ok(Extractor::new(command, settings.extract.clone()))
}

impl AppState {
    /// Writes what is only in memory and closes the databases, after everything that lives has ended.
    pub async fn close(&self) {
        let settle = async {
            let counts = self.usage.finish().await.and(self.budgets.settle().await);
            let counts = counts.and(self.presence.settle().await);
            let remembered = match &self.anchor {
                Some(anchor) => anchor.settle().await.map_err(PassError::from),
                None => Ok(()),
            };
            counts.and(remembered)
        };
        let settled = tokio::time::timeout(Duration::from_secs(2), settle).await;
        if let Err(error) = settled.unwrap_or_else(|_| Err("the store did not answer".into())) {
            tracing::warn!(
                error = domain::reasons(&*error),
                "the last counts of usage and of budgets, who was seen last, or the newest checkpoint could not be written"
            );
        }
        self.store.close().await;
        self.upstream.close().await;
    }

    /// Whether there is a language model to ask about new content.
    pub fn has_language_model(&self) -> bool {
        self.pipeline.stations().filter.has_model()
    }

    /// The origin of our own pages: scheme, host and port of the base URL.
    pub fn origin(&self) -> &str {
        let after_scheme = self.base_url.find("://").map_or(0, |at| at + 3);
        let end = self.base_url[after_scheme..].find('/').map_or(self.base_url.len(), |at| after_scheme + at);
        &self.base_url[..end]
    }

    /// The path of the base URL, without a slash at the end: empty unless a proxy serves us below one.
    pub fn root_path(&self) -> &str {
        &self.base_url[self.origin().len()..]
    }

    /// Whether a sign-in at this time is recent. Required for actions that an unattended browser must not allow: approving a computer,
    /// confirming an agent, making a key.
    pub fn is_recent_sign_in(&self, signed_in_at: Timestamp) -> bool {
        let within = TimeDelta::from_std(self.settings.signin.fresh_within).unwrap_or(TimeDelta::MAX);
        self.clock.now() - signed_in_at <= within
    }
}
