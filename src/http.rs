//! The HTTP door: one table of routes, and the layers around it.
//!
//! The table names, for every route, which credentials it takes. The router is built from it, the [`auth::Caller`] extractor obeys it,
//! and the tests walk it: a route without a rule cannot be written, and a rule without a test fails the build.

pub mod account;
pub mod activity;
pub mod agent_auth;
pub mod agents;
pub mod api_keys;
pub mod audit;
pub mod auth;
pub mod body;
pub mod client;
pub mod consent;
pub mod device;
pub mod discovery;
pub mod document;
pub mod error;
pub mod events;
pub mod guide;
pub mod knowledge;
pub mod layers;
pub mod limits;
pub mod machines;
pub mod named;
pub mod openapi;
pub mod passed;
pub mod query;
pub mod sessions;
mod settings;
pub mod usage;

use axum::Router;
use axum::http::Method;
use axum::routing::{self, MethodRouter};

pub use self::auth::Accepts;
pub use self::limits::LimitSettings;
pub use self::settings::{BODY_BYTES_HARD_MAX, Settings};
use crate::house::House;
use crate::web::{self, Page};

/// One row of the table.
#[derive(Debug)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path, with `{name}` for parameters.
    pub path: &'static str,
    /// Which credentials it takes.
    pub accepts: Accepts,
    handler: MethodRouter<House>,
}

impl Route {
    fn get(path: &'static str, accepts: Accepts, handler: MethodRouter<House>) -> Self {
        Self { method: Method::GET, path, accepts, handler }
    }

    fn post(path: &'static str, accepts: Accepts, handler: MethodRouter<House>) -> Self {
        Self { method: Method::POST, path, accepts, handler }
    }

    fn put(path: &'static str, accepts: Accepts, handler: MethodRouter<House>) -> Self {
        Self { method: Method::PUT, path, accepts, handler }
    }

    fn patch(path: &'static str, accepts: Accepts, handler: MethodRouter<House>) -> Self {
        Self { method: Method::PATCH, path, accepts, handler }
    }

    fn delete(path: &'static str, accepts: Accepts, handler: MethodRouter<House>) -> Self {
        Self { method: Method::DELETE, path, accepts, handler }
    }
}

/// Every route of the public listener (specification, *Endpoints* and *Authentication*).
pub fn routes() -> Vec<Route> {
    use routing::{delete, get, post};
    const NONE: Accepts = Accepts::NONE;
    const PERSON: Accepts = Accepts::ACCOUNT.or(Accepts::SESSION);
    const ANYONE: Accepts = PERSON.or(Accepts::MACHINE);
    vec![
        Route::get("/", NONE, get(discovery::welcome)),
        Route::get("/openapi.json", NONE, get(openapi::show)),
        Route::post("/api/v1/agent-auth/identity", NONE, post(agent_auth::identity)),
        Route::post("/api/v1/agent-auth/claim", NONE, post(agent_auth::claim)),
        Route::post("/api/v1/agent-auth/claim/complete", PERSON, post(agent_auth::complete)),
        Route::post("/api/v1/agent-auth/token", NONE, post(agent_auth::token)),
        Route::post("/api/v1/agent-auth/revoke", NONE, post(agent_auth::revoke)),
        Route::delete("/api/v1/agents/{id}", PERSON, delete(agents::revoke)),
        Route::get("/api/v1/sessions", PERSON, get(sessions::list)),
        Route::delete("/api/v1/sessions/{id}", PERSON, delete(sessions::revoke)),
        Route::get("/api/v1/account/summary", PERSON, get(account::summary)),
        Route::get("/api/v1/account/computers", PERSON, get(account::computers)),
        Route::get("/api/v1/usage/bar", ANYONE, get(usage::bar)),
        Route::post("/api/v1/device/code", Accepts::MACHINE, post(device::code)),
        Route::post("/api/v1/device/approve", PERSON, post(device::approve)),
        Route::post("/api/v1/device/deny", PERSON, post(device::deny)),
        Route::post("/api/v1/device/token", NONE, post(device::token)),
        Route::post("/api/v1/machines", NONE, post(machines::register)),
        Route::delete("/api/v1/machines/{machine_uuid}", PERSON, delete(machines::detach)),
        Route::get("/api/v1/consent", ANYONE, get(consent::read)),
        Route::post("/api/v1/consent", ANYONE, post(consent::write)),
        Route::post("/api/v1/events", ANYONE.or(Accepts::PRE_CLAIM), post(events::submit)),
        Route::get("/api/v1/events/registry", NONE, get(events::registry)),
        Route::get("/api/v1/activity", ANYONE, get(activity::page)),
        Route::get("/api/v1/audit/verify", ANYONE, get(audit::verify)),
        Route::get("/api/v1/audit/checkpoint", NONE, get(audit::checkpoint)),
        Route::get("/api/v1/audit/consistency", NONE, get(audit::consistency)),
        Route::get("/api/v1/audit/keys", NONE, get(audit::keys)),
        // What an agent made or ended would outlive the agent, so its account token does not do.
        Route::post("/api/v1/keys", Accepts::SESSION, post(api_keys::create)),
        Route::get("/api/v1/keys", PERSON, get(api_keys::list)),
        Route::delete("/api/v1/keys/{id}", Accepts::SESSION, delete(api_keys::revoke)),
        Route::post("/api/v1/a2a", NONE, post(guide::a2a::answer)),
        Route::post("/api/v1/mcp", NONE, post(guide::mcp::answer)),
        Route::get("/llms.txt", NONE, get(guide::short)),
        Route::get("/llms-full.txt", NONE, get(guide::full)),
        Route::get("/auth.md", NONE, get(guide::auth)),
        Route::get("/.well-known/jwks.json", NONE, get(discovery::jwks)),
        Route::get("/.well-known/agent-card.json", NONE, get(discovery::agent_card)),
        Route::get("/.well-known/oauth-authorization-server", NONE, get(discovery::authorization_server)),
        Route::get("/.well-known/oauth-protected-resource", NONE, get(discovery::protected_resource)),
        Route::get("/.well-known/oauth-protected-resource/{*path}", NONE, get(discovery::protected_resource_at)),
    ]
}

/// Every route of the knowledge API; the path begins with [`KNOWLEDGE_PREFIX`].
pub fn knowledge_routes() -> Vec<Route> {
    use knowledge::{batch, memories, search, settings, spaces};
    use routing::{delete, get, patch, post, put};
    const KEY: Accepts = Accepts::API_KEY;
    vec![
        Route::post("/v1/search", KEY, post(search::search)),
        Route::post("/v1/spaces/create", KEY, post(spaces::create)),
        Route::get("/v1/spaces", KEY, get(spaces::list)),
        Route::patch("/v1/spaces/{id}", KEY, patch(spaces::change)),
        Route::post("/v1/batch-add", KEY, post(batch::add)),
        Route::get("/v1/batch-add/{id}", KEY, get(batch::join)),
        Route::delete("/v1/batch-add/{id}", KEY, delete(batch::cancel)),
        Route::put("/v1/settings", KEY, put(settings::replace)),
        Route::get("/v1/settings", KEY, get(settings::show)),
        Route::patch("/v1/settings", KEY, patch(settings::change)),
        Route::get("/v1/memories/{id}", KEY, get(memories::show)),
        Route::delete("/v1/memories/{id}", KEY, delete(memories::delete)),
        Route::get("/v1/export", KEY, get(memories::export)),
    ]
}

/// Where the paths of the knowledge API begin: they never meet those of the other surface.
pub const KNOWLEDGE_PREFIX: &str = "/v1/";

/// The public listener's service; the knowledge API is part of it unless that has a listener of its own.
pub fn router(house: House) -> Router {
    let mut table = routes();
    if house.settings.knowledge.bind.is_none() {
        table.extend(knowledge_routes());
    }
    let mut router = serve(table);
    for Page { method: _, path, handler } in web::routes() {
        router = router.route(path, handler);
    }
    layers::around(router, house)
}

/// The service of the knowledge API's own listener.
pub fn knowledge_router(house: House) -> Router {
    use routing::get;
    let mut table = knowledge_routes();
    table.extend([
        Route::get(discovery::METADATA, Accepts::NONE, get(discovery::knowledge_resource)),
        Route::get(
            "/.well-known/oauth-protected-resource/{*path}",
            Accepts::NONE,
            get(discovery::knowledge_resource_at),
        ),
    ]);
    layers::around(serve(table), house)
}

fn serve(table: Vec<Route>) -> Router<House> {
    // Each method of a path is a route of its own, with credentials of its own.
    let add = |router: Router<House>, Route { path, accepts, handler, .. }| {
        router.route(path, handler.layer(axum::Extension(accepts)))
    };
    table.into_iter().fold(Router::new(), add)
}
