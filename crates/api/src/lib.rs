//! The HTTP APIs: one table of routes, and the layers around it.
//!
//! The table has the accepted credentials of every route. The router is built from it, the [`auth::Caller`] extractor enforces it, and the
//! tests iterate over it: a route cannot be defined without credentials, and an untested route fails the tests.

mod accepts;
pub mod account;
pub mod activity;
pub mod addresses;
pub mod agent_auth;
mod agent_sessions;
pub mod agents;
pub mod api_keys;
pub mod audit;
pub mod auth;
pub mod body;
pub mod browser;
pub mod client;
pub mod connection;
pub mod consent;
pub mod cookie;
pub mod cors;
mod costs;
mod counts;
pub mod device;
pub mod discovery;
pub mod document;
pub mod error;
pub mod events;
mod feeds;
mod front;
pub mod gate;
pub mod guide;
pub mod head;
pub mod knowledge;
pub mod layers;
pub mod limits;
pub mod machines;
mod media_type;
pub mod named;
pub mod openapi;
pub mod origin;
pub mod passed;
pub mod query;
pub mod receiving;
mod route;
pub mod rpc;
pub mod rules;
pub mod seal;
pub mod sessions;
mod state;
pub mod unread;
pub mod usage;
pub mod webhooks;

use std::sync::Arc;

use app::config::{Settings, Urls};
use app::phase::Phases;
use app::services::oidc::Providers;
use app::{App, BuildError};
use axum::Router;
use domain::agent_right::AgentRight;

pub use self::accepts::Accepts;
use self::browser::BrowserPages;
use self::discovery::Resources;
pub use self::front::Front;
use self::openapi::Description;
pub use self::route::KNOWLEDGE_PREFIX;
use self::route::RESOURCE_METADATA;
use self::state::Documents;
pub use self::state::HttpState;

/// One row of a route table.
pub type Route = route::Route<HttpState>;

/// Every route of the public listener (`docs/protocol/README.md` and `docs/protocol/authentication.md`).
pub fn routes() -> Vec<Route> {
    const NONE: Accepts = Accepts::NONE;
    const READER: Accepts = Accepts::agent(AgentRight::Read).or(Accepts::SESSION);
    // Such a key lies on a computer, where its programs read it: it shows no sessions, keys or webhooks.
    const ACCOUNT_READER: Accepts = READER.or(Accepts::ACCOUNT_KEY);
    const CONFIRMER: Accepts = Accepts::agent(AgentRight::ConfirmAgents).or(Accepts::SESSION);
    const APPROVER: Accepts = Accepts::agent(AgentRight::ConfirmComputers).or(Accepts::SESSION);
    const DETACHER: Accepts = Accepts::agent(AgentRight::DetachComputers).or(Accepts::SESSION);
    const SETTER: Accepts = Accepts::agent(AgentRight::SetConsent).or(Accepts::SESSION).or(Accepts::MACHINE);
    const SENDER: Accepts =
        Accepts::agent(AgentRight::SendEvents).or(Accepts::SESSION).or(Accepts::MACHINE).or(Accepts::PRE_CLAIM);
    const ANYONE: Accepts = ACCOUNT_READER.or(Accepts::MACHINE);
    vec![
        Route::get("/", NONE, discovery::welcome),
        Route::get("/openapi.json", NONE, openapi::show),
        Route::post("/api/v1/agent-auth/identity", NONE, agent_auth::identity),
        Route::post("/api/v1/agent-auth/claim", NONE, agent_auth::claim),
        Route::post("/api/v1/agent-auth/claim/complete", CONFIRMER, agent_auth::complete),
        Route::post("/api/v1/agent-auth/token", NONE, agent_auth::token),
        Route::post("/api/v1/agent-auth/revoke", NONE, agent_auth::revoke),
        // Every agent may revoke itself.
        Route::delete("/api/v1/agents/{id}", Accepts::ACCOUNT.or(Accepts::SESSION), agents::revoke),
        // A person recognises agents and computers by their names, so only sessions set them.
        Route::patch("/api/v1/agents/{id}", Accepts::SESSION, agents::rename),
        Route::patch("/api/v1/account/computers/{machine_uuid}", Accepts::SESSION, account::name_computer),
        Route::get("/api/v1/sessions", READER, sessions::list),
        // An agent must not be able to end the sessions of its person.
        Route::delete("/api/v1/sessions/{id}", Accepts::SESSION, sessions::revoke),
        Route::get("/api/v1/account/summary", ACCOUNT_READER, account::summary),
        Route::get("/api/v1/account/computers", ACCOUNT_READER, account::computers),
        Route::get("/api/v1/usage/bar", ANYONE, usage::bar),
        Route::get("/api/v1/usage/costs", ANYONE, costs::show),
        Route::post("/api/v1/device/code", Accepts::MACHINE, device::code),
        Route::post("/api/v1/device/approve", APPROVER, device::approve),
        Route::post("/api/v1/device/deny", APPROVER, device::deny),
        Route::post("/api/v1/device/token", NONE, device::token),
        Route::post("/api/v1/machines", NONE, machines::register),
        Route::get("/api/v1/machines/{machine_uuid}", Accepts::MACHINE, machines::show),
        Route::delete("/api/v1/machines/{machine_uuid}", DETACHER, machines::detach),
        Route::get("/api/v1/consent", ANYONE, consent::read),
        Route::post("/api/v1/consent", SETTER, consent::write),
        Route::post("/api/v1/consent/pause", SETTER, consent::pause),
        Route::delete("/api/v1/consent/pause", SETTER, consent::end_pause),
        Route::post("/api/v1/events", SENDER, events::submit),
        Route::get("/api/v1/events/registry", NONE, events::registry),
        Route::get("/api/v1/activity", ANYONE, activity::page),
        Route::get("/api/v1/activity/sessions", ANYONE, agent_sessions::list),
        Route::get("/api/v1/activity/sessions/{id}", ANYONE, agent_sessions::show),
        Route::get("/api/v1/audit/verify", ANYONE, audit::verify),
        Route::get("/api/v1/audit/checkpoint", NONE, audit::checkpoint),
        Route::get("/api/v1/audit/consistency", NONE, audit::consistency),
        Route::get("/api/v1/audit/keys", NONE, audit::keys),
        Route::get("/log/checkpoint", NONE, audit::checkpoint),
        Route::get("/log/tile/{*path}", NONE, audit::tile),
        Route::get("/log/{part}/{*path}", NONE, audit::of_part),
        // A key outlives the agent that created it, so an agent's token is not accepted.
        Route::post("/api/v1/keys", Accepts::SESSION, api_keys::create),
        Route::get("/api/v1/keys", READER, api_keys::list),
        Route::delete("/api/v1/keys/{id}", Accepts::SESSION, api_keys::revoke),
        Route::get("/api/v1/webhooks", READER, webhooks::list),
        Route::post("/api/v1/webhooks", Accepts::SESSION, webhooks::create),
        Route::patch("/api/v1/webhooks/{id}", Accepts::SESSION, webhooks::change),
        Route::delete("/api/v1/webhooks/{id}", Accepts::SESSION, webhooks::delete),
        Route::post("/api/v1/webhooks/{id}/secret", Accepts::SESSION, webhooks::rotate),
        Route::post("/api/v1/webhooks/{id}/test", Accepts::SESSION, webhooks::test),
        Route::get("/api/v1/webhooks/{id}/deliveries", READER, webhooks::deliveries),
        Route::get("/api/v1/rules", READER, rules::list),
        // A rule sends mail to the person, so only sessions add it.
        Route::post("/api/v1/rules", Accepts::SESSION, rules::create),
        Route::delete("/api/v1/rules/{id}", Accepts::SESSION, rules::delete),
        Route::put("/api/v1/digest", Accepts::SESSION, rules::set_digest),
        // The secret in the link is the credential: feed readers cannot send another one.
        Route::get("/feeds/{token}", NONE, feeds::show),
        Route::post("/api/v1/a2a", NONE, guide::a2a::answer),
        Route::post("/api/v1/mcp", NONE, guide::mcp::answer),
        Route::get("/llms.txt", NONE, guide::short),
        Route::get("/llms-full.txt", NONE, guide::full),
        Route::get("/auth.md", NONE, guide::auth),
        Route::get("/.well-known/jwks.json", NONE, discovery::jwks),
        Route::get("/.well-known/agent-card.json", NONE, discovery::agent_card),
        Route::get("/.well-known/oauth-authorization-server", NONE, discovery::authorization_server),
        Route::get("/.well-known/oauth-protected-resource", NONE, discovery::protected_resource),
        Route::get("/.well-known/oauth-protected-resource/{*path}", NONE, discovery::protected_resource_at),
    ]
}

/// Every route of the knowledge API; each path starts with [`KNOWLEDGE_PREFIX`].
pub fn knowledge_routes() -> Vec<Route> {
    use knowledge::{batch, import, key, mcp, memories, search, settings, spaces};
    const KEY: Accepts = Accepts::API_KEY;
    vec![
        Route::get("/v1/key", KEY, key::show),
        Route::post("/v1/search", KEY, search::search),
        Route::post("/v1/spaces/create", KEY, spaces::create),
        Route::get("/v1/spaces", KEY, spaces::list),
        Route::patch("/v1/spaces/{id}", KEY, spaces::change),
        Route::delete("/v1/spaces/{id}", KEY, spaces::delete),
        Route::post("/v1/batch-add", KEY, batch::add),
        Route::get("/v1/batch-add/{id}", KEY, batch::join),
        Route::delete("/v1/batch-add/{id}", KEY, batch::cancel),
        Route::put("/v1/settings", KEY, settings::replace),
        Route::get("/v1/settings", KEY, settings::show),
        Route::patch("/v1/settings", KEY, settings::change),
        Route::get("/v1/memories", KEY, memories::list),
        Route::get("/v1/memories/{id}", KEY, memories::show),
        Route::patch("/v1/memories/{id}", KEY, memories::change),
        Route::delete("/v1/memories/{id}", KEY, memories::delete),
        Route::get("/v1/export", KEY, memories::export),
        Route::post("/v1/import", KEY, import::import),
        Route::post("/v1/mcp", KEY, mcp::answer),
    ]
}

/// The description of both surfaces, for a server with these settings and URLs.
pub fn description(settings: &Settings, urls: &Urls) -> Description {
    Description::new(settings.clone(), urls.clone(), all_routes)
}

fn all_routes() -> Vec<Route> {
    routes().into_iter().chain(knowledge_routes()).collect()
}

/// The state of all routes and pages of a running server. Streams end when the server stops.
pub fn state(app: App, providers: Providers, phases: Phases, browser: BrowserPages) -> Result<HttpState, BuildError> {
    let urls = Arc::clone(&app.urls);
    let documents = Documents {
        description: app.live.part(move |settings| Arc::new(description(settings, &urls))),
        resources: Resources::of(&routes(), &knowledge_routes(), app.settings.knowledge.bind.is_none()),
    };
    HttpState::new(app, providers, documents, phases, browser)
}

/// The service of the public listener: the account and agent API, and `pages`. It contains the knowledge API, too, unless that API has a
/// separate listener.
pub fn service(state: HttpState, pages: Router<HttpState>) -> Front {
    let mut table = routes();
    if state.app.settings.knowledge.bind.is_none() {
        table.extend(knowledge_routes());
    }
    Front::new(state, table, pages)
}

/// The service of the knowledge API's own listener.
pub fn knowledge_service(state: HttpState) -> Front {
    let mut table = knowledge_routes();
    table.extend([
        Route::get(RESOURCE_METADATA, Accepts::NONE, discovery::knowledge_resource),
        Route::get("/.well-known/oauth-protected-resource/{*path}", Accepts::NONE, discovery::knowledge_resource_at),
    ]);
    Front::new(state, table, Router::new())
}
