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
pub mod error;
pub mod events;
pub mod layers;
pub mod limits;
pub mod machines;
pub mod passed;
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
        Route::get("/.well-known/jwks.json", NONE, get(discovery::jwks)),
    ]
}

/// The public listener's service.
pub fn router(house: House) -> Router {
    let mut router = Router::new();
    for Route { path, accepts, handler, .. } in routes() {
        // Each method of a path is a route of its own, with credentials of its own.
        router = router.route(path, handler.layer(axum::Extension(accepts)));
    }
    for Page { method: _, path, handler } in web::routes() {
        router = router.route(path, handler);
    }
    layers::around(router, house)
}
