//! The operator's API, `/ops/v1/…`: reads the record of acts and the settings, changes live ones, and pauses parts of the service
//! (`docs/decisions/0040-door-of-operators.md`).
//!
//! The operator's socket serves it, and the operator's listener if the configuration has operators. The module `door` decides who may do what, by the
//! [table of routes](routes).

mod acts;
mod config;
pub mod description;
mod door;
mod flow;
mod held;
mod keys;
mod node;
mod objects;
mod once;
mod orders;
mod pauses;
mod queues;
mod refusal;
mod request;
mod state;
mod stream;
mod tap;

use std::sync::Arc;

use api::limits::RateLimiters;
use app::App;
use app::objects::ObjectChange;
use app::phase::Phases;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::Response;
use axum::routing::{MethodRouter, delete, get, post, put};
use domain::act::ActKind;
use domain::operator::OperatorRole;

pub(super) use self::door::Insider;
pub(super) use self::once::IDEMPOTENCY_KEY;
pub(super) use self::request::TREE_DEADLINE;

use self::description::RouteDescription;
use self::door::Entrance;
use self::once::RunningActs;
use self::request::BODY_BYTES_MAX;
use self::state::OpsState;

/// Path of all routes.
pub const PREFIX: &str = "/ops/v1";

/// One route of the API.
pub struct OpsRoute {
    /// HTTP method.
    pub method: Method,
    /// Path below [`PREFIX`].
    pub path: &'static str,
    /// The role that it needs.
    pub role: OperatorRole,
    /// The act that a request is; `None` for a route that changes nothing.
    pub act: Option<ActKind>,
    description: RouteDescription,
    handler: MethodRouter<OpsState>,
}

/// All routes.
pub fn routes() -> Vec<OpsRoute> {
    [looks(), changes()].into_iter().flatten().collect()
}

/// The routes that only read.
fn looks() -> Vec<OpsRoute> {
    let look = |path, handler, description| {
        let handler: MethodRouter<OpsState> = handler;
        OpsRoute { method: Method::GET, path, role: OperatorRole::Look, act: None, description, handler }
    };
    vec![
        look("/acts", get(acts::list), description::LIST_ACTS),
        look("/acts/{id}", get(acts::show), description::SHOW_ACT),
        look("/config", get(config::show), description::SHOW_CONFIG),
        look("/config/overrides", get(config::overrides), description::LIST_OVERRIDES),
        look("/cluster", get(node::cluster), description::SHOW_CLUSTER),
        look("/flow", get(flow::flow), description::SHOW_FLOW),
        look("/log", get(flow::log), description::SHOW_LOG),
        look("/stream", get(stream::watch), description::STREAM),
        look("/nodes/{node}/tree", get(node::tree), description::SHOW_TREE),
        look("/nodes/{node}/tree/{actor}", get(node::actor), description::SHOW_ACTOR),
        look("/outbox", get(flow::outbox), description::LIST_OUTBOX),
        look("/batches", get(queues::batches), description::LIST_BATCHES),
        look("/mails", get(queues::mails), description::LIST_MAILS),
        look("/webhooks", get(queues::webhooks), description::LIST_WEBHOOKS),
        look("/sessions", get(queues::sessions), description::LIST_SESSIONS),
        look("/held", get(held::list), description::LIST_HELD),
        look("/keys", get(keys::list), description::LIST_KEYS),
        look("/keys/{kind}/{key}", get(keys::show), description::SHOW_KEY),
        look("/pauses", get(pauses::list), description::LIST_PAUSES),
    ]
}

/// The routes that change something.
fn changes() -> Vec<OpsRoute> {
    let operate = |method, path, act, handler, description| {
        let handler: MethodRouter<OpsState> = handler;
        OpsRoute { method, path, role: OperatorRole::Operate, act: Some(act), description, handler }
    };
    let change = |path, change: ObjectChange, description| {
        operate(Method::POST, path, change.act(), objects::changes(change), description)
    };
    vec![
        operate(Method::POST, "/config/reload", ActKind::ConfigReload, post(config::reload), description::RELOAD),
        operate(
            Method::PUT,
            "/config/overrides/{path}",
            ActKind::ConfigSet,
            put(config::set),
            description::SET_OVERRIDE,
        ),
        operate(
            Method::DELETE,
            "/config/overrides/{path}",
            ActKind::ConfigUnset,
            delete(config::unset),
            description::UNSET_OVERRIDE,
        ),
        operate(
            Method::POST,
            "/nodes/{node}/actors/{actor}/restart",
            ActKind::ActorRestart,
            post(node::replace_actor),
            description::RESTART_ACTOR,
        ),
        OpsRoute {
            role: OperatorRole::Admin,
            ..operate(
                Method::POST,
                "/nodes/{node}/actors/{actor}/kill",
                ActKind::ActorKill,
                post(node::replace_actor),
                description::KILL_ACTOR,
            )
        },
        change("/batches/{id}/cancel", ObjectChange::CancelBatch, description::CANCEL_BATCH),
        change("/mails/{id}/retry", ObjectChange::RetryMail, description::RETRY_MAIL),
        change("/mails/{id}/give_up", ObjectChange::GiveUpMail, description::GIVE_UP_MAIL),
        change("/webhooks/{id}/disable", ObjectChange::DisableWebhook, description::DISABLE_WEBHOOK),
        change("/webhooks/{id}/enable", ObjectChange::EnableWebhook, description::ENABLE_WEBHOOK),
        change("/sessions/{id}/end", ObjectChange::EndSession, description::END_SESSION),
        operate(Method::GET, "/tap", ActKind::EventTap, get(tap::watch), description::TAP),
        operate(Method::POST, "/held:release", ActKind::HeldRelease, post(held::end), description::RELEASE_HELD),
        operate(Method::POST, "/held:discard", ActKind::HeldDiscard, post(held::end), description::DISCARD_HELD),
        operate(
            Method::POST,
            "/keys/{kind}/{key}/quarantine",
            ActKind::KeyQuarantine,
            post(keys::quarantine),
            description::QUARANTINE_KEY,
        ),
        operate(
            Method::POST,
            "/keys/{kind}/{key}/release",
            ActKind::KeyRelease,
            post(keys::order),
            description::RELEASE_KEY,
        ),
        operate(
            Method::POST,
            "/keys/{kind}/{key}/restart",
            ActKind::KeyRestart,
            post(keys::order),
            description::RESTART_KEY,
        ),
        operate(Method::POST, "/pauses", ActKind::PauseBegin, post(pauses::begin), description::BEGIN_PAUSE),
        operate(Method::DELETE, "/pauses/{id}", ActKind::PauseEnd, delete(pauses::end), description::END_PAUSE),
        operate(Method::POST, "/nodes/{node}/drain", ActKind::NodeDrain, post(node::drain), description::DRAIN),
        operate(
            Method::DELETE,
            "/nodes/{node}/drain",
            ActKind::NodeUndrain,
            delete(node::undrain),
            description::UNDRAIN,
        ),
    ]
}

/// The service of the routes, below [`PREFIX`].
pub fn router(app: &App, phases: &Phases, limits: &Arc<RateLimiters>) -> Router {
    orders::follow(app, phases);
    let (mut router, running) = (Router::new(), RunningActs::default());
    for OpsRoute { path, role, act, handler, .. } in routes() {
        let (app, limits, running) = (app.clone(), Arc::clone(limits), running.clone());
        let entrance = Entrance { app, limits, path, role, act, running };
        router = router.route(path, handler.layer(from_fn_with_state(entrance, door::enter)));
    }
    router
        .fallback(async || refusal::Refusal::not_found("no such route: `attache openapi --ops` describes them"))
        .method_not_allowed_fallback(async || {
            refusal::Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "this route has no such method")
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(app.clone(), door::is_there))
        .layer(map_response(not_stored))
        .with_state(OpsState { app: app.clone(), phases: phases.clone(), streams: stream::places() })
}

async fn not_stored(mut response: Response) -> Response {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
