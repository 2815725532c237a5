//! The state of the HTTP surfaces: the running server, the services, and the parts that only HTTP needs.
//!
//! Handlers do not take the whole state. They name the parts that they use, as `State<Consent>` or `State<Arc<RateLimiters>>`; the
//! [`FromRef`] implementations below select them.

use std::sync::Arc;

use actors::claim::Claims;
use actors::device::DeviceCodes;
use actors::intake::Intake;
use actors::signin::SignIns;
use actors::upstream::Upstream;
use app::config::{SigninSettings, Urls};
use app::phase::Phases;
use app::services::Ports;
use app::services::activity::browse::Activity;
use app::services::agent_sessions::AgentSessions;
use app::services::agents::AccountAgents;
use app::services::api_keys::ApiKeys;
use app::services::audit_links::AuditLinks;
use app::services::claims::ClaimConfirmations;
use app::services::closing::Closings;
use app::services::confirmation::RecentSignIn;
use app::services::consent::Consent;
use app::services::devices::DeviceApprovals;
use app::services::export::AccountExport;
use app::services::feeds::Feeds;
use app::services::knowledge::credential::CredentialChecks;
use app::services::knowledge::{Batches, Filters, KnowledgeSearch, Memories, MemoryLimits, Spaces};
use app::services::labels::Labels;
use app::services::machines::Machines;
use app::services::oidc::Providers;
use app::services::rules::EventRules;
use app::services::sessions::Sessions;
use app::services::usage::UsageBars;
use app::services::webhooks::Webhooks;
use app::telemetry::Requests;
use app::{App, BuildError};
use axum::extract::FromRef;
use domain::Clock;
use domain::live::Live;
use store::Store;

use super::auth::Authenticator;
use super::body::BodyReader;
use super::body::slow::SlowBodies;
use super::browser::BrowserPages;
use super::client::TrustedProxies;
use super::cookie::Cookies;
use super::cors::Cors;
use super::discovery::Resources;
use super::error;
use super::events::RegistryDescription;
use super::gate::Gate;
use super::guide::Guides;
use super::knowledge::large::LargeBodies;
use super::knowledge::places::Places;
use super::knowledge::stream::EventStreams;
use super::limits::RateLimiters;
use super::openapi::Description;
use super::origin::OriginPolicy;
use super::receiving::ReceiveMemory;
use super::seal::Seal;

/// The state of all routes and pages. Clones share it.
#[derive(Debug, Clone)]
pub struct HttpState(Arc<HttpParts>);

/// The parts of an [`HttpState`].
#[derive(Debug)]
pub struct HttpParts {
    /// The running server.
    pub app: App,
    /// Limits the requests in progress.
    pub gate: Arc<Gate>,
    /// Memory for what clients are sending.
    pub memory: Arc<ReceiveMemory>,
    /// Counts answered requests.
    pub requests: Requests,
    /// The pages for browsers.
    pub browser: BrowserPages,
    ports: Ports,
    services: Services,
    authenticator: Arc<Authenticator>,
    bodies: Arc<BodyReader>,
    large_bodies: Arc<LargeBodies>,
    streams: EventStreams,
    cors: Cors,
    cookies: Arc<Cookies>,
    description: Live<Arc<Description>>,
    guides: Arc<Guides>,
    limits: Arc<RateLimiters>,
    origin: Arc<OriginPolicy>,
    providers: Arc<Providers>,
    registry: Arc<RegistryDescription>,
    resources: Arc<Resources>,
    seal: Seal,
    signin_settings: Arc<SigninSettings>,
    trusted_proxies: TrustedProxies,
}

/// The use cases.
#[derive(Debug)]
struct Services {
    activity: Activity,
    agent_sessions: AgentSessions,
    agents: AccountAgents,
    api_keys: ApiKeys,
    audit_links: AuditLinks,
    batches: Batches,
    claims: ClaimConfirmations,
    closings: Closings,
    consent: Consent,
    devices: DeviceApprovals,
    export: AccountExport,
    filters: Filters,
    labels: Labels,
    machines: Machines,
    memories: Memories,
    recent: RecentSignIn,
    search: KnowledgeSearch,
    sessions: Sessions,
    spaces: Spaces,
    usage: UsageBars,
    webhooks: Webhooks,
    feeds: Feeds,
    rules: EventRules,
}

/// The parts that are built from the route tables.
#[derive(Debug)]
pub(super) struct Documents {
    pub description: Live<Arc<Description>>,
    pub resources: Resources,
}

impl std::ops::Deref for HttpState {
    type Target = HttpParts;

    fn deref(&self) -> &HttpParts {
        &self.0
    }
}

impl HttpState {
    /// Builds the state around a running server. Streams end when the server stops.
    pub(super) fn new(
        app: App,
        providers: Providers,
        documents: Documents,
        phases: Phases,
        browser: BrowserPages,
    ) -> Result<Self, BuildError> {
        error::begin_counting();
        let (settings, live) = (&app.settings, &app.live);
        let batch = live.part(|settings| settings.knowledge.batch.clone());
        let heartbeat = live.part(|settings| settings.knowledge.batch.heartbeat);
        let ports = Ports::new(app.store.clone(), app.clock.clone(), app.rng.clone());
        let services = Services::new(&app, &ports);
        let seal = Seal::new(app.codes.clone());
        let gate = Arc::new(Gate::new(live.part(|settings| settings.http.requests_max)));
        let memory = ReceiveMemory::new(live.part(|settings| settings.http.bodies_bytes_max));
        let cookies = Arc::new(Cookies::new(&settings.http.auth_name, &app.urls, seal.clone()));
        let origin = Arc::new(OriginPolicy::new(&settings.http, Arc::clone(&app.urls)));
        let authenticator = Authenticator {
            clock: app.clock.clone(),
            store: app.store.clone(),
            lookup: app.lookup.clone(),
            presence: app.presence.clone(),
            sessions: services.sessions.clone(),
            api_keys: services.api_keys.clone(),
            cookies: Arc::clone(&cookies),
            origin: Arc::clone(&origin),
            urls: Arc::clone(&app.urls),
        };
        let bodies = Arc::new(BodyReader {
            slow: SlowBodies::new(
                live.part(|settings| settings.http.clone()),
                live.part(|settings| settings.http.bodies_per_address_max),
                Arc::clone(&gate),
                Arc::clone(&memory),
            ),
        });
        let large_bodies = Arc::new(LargeBodies::new(batch, Arc::clone(&bodies)));
        let checks = CredentialChecks::new(app.store.clone(), app.clock.clone(), heartbeat.clone());
        let places = Places::new(
            live.part(|settings| settings.knowledge.batch.streams_max),
            live.part(|settings| settings.knowledge.batch.streams_per_account_max),
        );
        let limits = Arc::new(RateLimiters::new(&settings.limits, app.pauses.clone()));
        let (rates, bodies_of_batches) = (Arc::clone(&limits), Arc::clone(&large_bodies));
        live.follow(move |settings| {
            rates.retune(&settings.limits);
            bodies_of_batches.retune(&settings.knowledge.batch);
        });
        Ok(Self(Arc::new(HttpParts {
            memory,
            requests: Requests::default(),
            browser,
            gate,
            services,
            authenticator: Arc::new(authenticator),
            bodies,
            large_bodies,
            streams: EventStreams::new(places, checks, phases, heartbeat),
            cors: Cors::new(&settings.knowledge.cors_origins),
            cookies,
            description: documents.description,
            guides: Arc::new(Guides::new(&app.urls, settings)?),
            limits,
            origin,
            providers: Arc::new(providers),
            registry: Arc::new(RegistryDescription::new(&app.registry)),
            resources: Arc::new(documents.resources),
            seal,
            signin_settings: Arc::new(settings.signin.clone()),
            trusted_proxies: TrustedProxies::new(&settings.http.trusted_proxies),
            ports,
            app,
        })))
    }
}

impl Services {
    fn new(app: &App, ports: &Ports) -> Self {
        let (settings, live, ports) = (&app.settings, &app.live, || ports.clone());
        let knowledge = &settings.knowledge;
        let recent = RecentSignIn::new(app.clock.clone(), settings.signin.fresh_within);
        let agents = settings.agent_kinds().names().into_iter().map(str::to_owned).collect();
        let registry = Arc::clone(&app.registry);
        let agent_sessions =
            AgentSessions::new(app.upstream.clone(), Arc::clone(&app.registry), Arc::clone(&app.prices));
        Self {
            activity: Activity::new(ports(), app.upstream.clone(), settings.activity.clone(), agents, registry),
            agent_sessions: agent_sessions.clone(),
            agents: AccountAgents::new(ports()),
            api_keys: ApiKeys::new(ports(), settings.api_keys.per_account_max),
            audit_links: AuditLinks::new(
                ports(),
                app.upstream.clone(),
                agent_sessions,
                Arc::clone(&app.registry),
                Arc::clone(&app.urls),
            ),
            batches: Batches::new(
                ports(),
                app.ingestion.clone(),
                live.part(|settings| settings.knowledge.batch.clone()),
            ),
            claims: ClaimConfirmations::new(app.claims.clone(), recent.clone(), settings.claims.require_session),
            closings: Closings::new(ports(), Arc::clone(&app.urls)),
            consent: Consent::new(
                ports(),
                app.outbox.clone(),
                app.budgets.clone(),
                settings.consent.default_level,
                app.urls.base.clone(),
                settings.consent.pause_max,
            ),
            devices: DeviceApprovals::new(
                app.devices.clone(),
                app.claims.clone(),
                recent.clone(),
                settings.devices.require_session,
                settings.janitor.purge.unattached_kept,
            ),
            export: AccountExport::new(ports(), app.upstream.clone()),
            filters: Filters::new(ports(), app.has_language_model()),
            labels: Labels::new(ports()),
            machines: Machines::new(ports(), settings.machines.clone(), settings.log.weights().unwrap_or_default()),
            memories: Memories::new(ports(), app.pipeline.clone(), live.part(MemoryLimits::new)),
            recent,
            search: KnowledgeSearch::new(ports(), app.search.clone()),
            sessions: Sessions::new(ports(), settings.sessions.clone()),
            spaces: Spaces::new(ports(), knowledge.spaces_per_account_max),
            webhooks: Webhooks::new(ports(), live.part(|settings| settings.webhooks.clone())),
            feeds: Feeds::new(ports(), live.part(|settings| settings.feeds.clone())),
            rules: EventRules::new(ports(), app.upstream.clone(), settings.rules.clone()),
            usage: UsageBars::new(
                ports(),
                (app.usage.clone(), app.budgets.clone()),
                live.part(|settings| settings.plans),
                settings.account.clone(),
                Arc::clone(&app.urls),
            ),
        }
    }
}

impl FromRef<HttpState> for Arc<Description> {
    fn from_ref(state: &HttpState) -> Self {
        Self::clone(&state.description.get())
    }
}

/// Selects parts of the state: their types and the fields that hold them.
macro_rules! parts {
    ($($part:ty = $($field:ident).+;)+) => {$(
        impl FromRef<HttpState> for $part {
            fn from_ref(state: &HttpState) -> Self {
                state.$($field).+.clone()
            }
        }
    )+};
}

parts! {
    Claims = app.claims;
    DeviceCodes = app.devices;
    Intake = app.intake;
    SignIns = app.signins;
    Activity = services.activity;
    AgentSessions = services.agent_sessions;
    AccountAgents = services.agents;
    Upstream = app.upstream;
    Store = app.store;
    Clock = app.clock;
    Ports = ports;
    Arc<Urls> = app.urls;
    ApiKeys = services.api_keys;
    AuditLinks = services.audit_links;
    Batches = services.batches;
    ClaimConfirmations = services.claims;
    AccountExport = services.export;
    Closings = services.closings;
    Consent = services.consent;
    DeviceApprovals = services.devices;
    Filters = services.filters;
    KnowledgeSearch = services.search;
    Labels = services.labels;
    Machines = services.machines;
    Memories = services.memories;
    RecentSignIn = services.recent;
    Sessions = services.sessions;
    Spaces = services.spaces;
    UsageBars = services.usage;
    Webhooks = services.webhooks;
    Feeds = services.feeds;
    EventRules = services.rules;
    Arc<Authenticator> = authenticator;
    Arc<BodyReader> = bodies;
    Arc<LargeBodies> = large_bodies;
    EventStreams = streams;
    Cors = cors;
    Arc<Cookies> = cookies;
    Arc<Guides> = guides;
    Arc<RateLimiters> = limits;
    Arc<OriginPolicy> = origin;
    Arc<Providers> = providers;
    Arc<RegistryDescription> = registry;
    Arc<Resources> = resources;
    Seal = seal;
    Arc<SigninSettings> = signin_settings;
    TrustedProxies = trusted_proxies;
}
