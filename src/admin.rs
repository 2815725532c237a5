//! The operator's listener and socket: health, metrics, running actors, and the operator's API. Only the API requires a credential; keep the
//! listener on loopback or a closed network.
//! A web page in a browser on that network can reach it under a foreign host name that resolves to this address (DNS rebinding), so the
//! listener only accepts known hosts.
//!
//! - `GET /`: the page for an operator's browser (`admin/page.rs`); `GET /assets/…` has its style and script.
//! - `GET /healthz`: the process answers. No IO.
//! - `GET /readyz`: 200 `{status: "ready", …}` while all parts that requests need work (`admin/readiness.rs`) and the server is not
//!   stopping; otherwise 503. `failing` contains each failing part with the reason. A failing external statistics service is a
//!   degradation, and does not make the server unready: `degraded` contains the reason, while its circuit breaker is open
//!   (`upstream.breaker.open`). `nodes` lists the other nodes; differences from them are degradations too.
//! - `GET /metrics`: Prometheus text.
//! - `GET /actors`: the tree of running actors, with restarts and the last failure of each.
//! - `/console/…`: the console, which requires a sign-in (`admin/console.rs`).
//! - `/ops/v1/…`: the operator's API, which requires a credential (`admin/ops.rs`).

mod coalesced;
mod console;
mod gauges;
pub mod ops;
mod page;
#[cfg(target_os = "linux")]
mod process;
mod readiness;
mod throughput;
pub mod words;

use std::net::SocketAddr;
use std::sync::Arc;

use actors::node::{Standing, StandingProbe};
use api::head;
use api::limits::RateLimiters;
use app::App;
use app::phase::Phases;
use app::services::oidc::Providers;
use app::telemetry;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use domain::node::{NodeRecord, short};
use serde_json::{Value, json};
use store::held::HeldCount;

use self::coalesced::SharedProbe;
use self::gauges::Gauges;
use self::ops::TREE_DEADLINE;
use self::readiness::Readiness;
use self::throughput::Throughput;

#[derive(Debug, Clone)]
struct AdminState {
    app: App,
    phases: Phases,
    readiness: Readiness,
    gauges: Gauges,
    held: SharedProbe<Vec<HeldCount>>,
    throughput: Throughput,
}

/// The operator's service.
pub fn router(
    app: App,
    phases: Phases,
    listeners: Listeners,
    (providers, limits): (&Arc<Providers>, &Arc<RateLimiters>),
) -> Router {
    let readiness = Readiness::default();
    introduce(&app, &readiness, &phases, listeners);
    let throughput = Throughput::default();
    throughput.watch(app.downgrade());
    let (gauges, held) = (Gauges::default(), SharedProbe::default());
    let ops = ops::router(&app, &phases, limits);
    Router::new()
        .route("/", get(page::show))
        .route("/assets/{*path}", get(page::file))
        .route("/healthz", get(async || axum::Json(json!({ "status": "ok" }))))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/actors", get(tree))
        .merge(console::router(&app, ops.clone(), providers, limits))
        .nest_service(ops::PREFIX, ops)
        .fallback(async || (StatusCode::NOT_FOUND, axum::Json(json!({ "error": "not_found" }))))
        .layer(axum::middleware::from_fn_with_state(app.clone(), known_host))
        .with_state(AdminState { app, phases, readiness, gauges, held, throughput })
}

/// The bound addresses of the listeners that other nodes and operators should know.
#[derive(Debug, Clone, Copy)]
pub struct Listeners {
    /// The public listener.
    pub public: SocketAddr,
    /// The operator's listener.
    pub operator: SocketAddr,
}

/// Writes this node into the table of nodes, with its readiness as in `/readyz`.
fn introduce(app: &App, readiness: &Readiness, phases: &Phases, listeners: Listeners) {
    let (weak, readiness, phases) = (app.downgrade(), readiness.clone(), phases.clone());
    let standing: StandingProbe = Arc::new(move || {
        let (app, readiness, phases) = (weak.upgrade(), readiness.clone(), phases.clone());
        let is_draining = phases.is_leaving();
        Box::pin(async move {
            let app = app?;
            let (report, tree) = readiness.look(&app, &phases).await;
            let crashed_keys = app.keyed_actors().crashed(app.clock.now());
            Some(Standing { unready: report.reasons(), is_draining, crashed_keys, tree: json!(tree.ok()) })
        })
    });
    app.nodes.introduce(listeners.public.to_string(), listeners.operator.to_string(), standing);
}

/// Accepts a request if its `Host` is an IP address, this computer, or one of `admin.hosts`: a foreign page has another host name.
async fn known_host(State(app): State<App>, request: Request, next: Next) -> Response {
    let host = match head::host(&request) {
        Ok(host) => head::without_port(host.unwrap_or("localhost")),
        Err(error) => return error.into_response(),
    };
    let named = |name: &String| name.eq_ignore_ascii_case(host);
    if head::as_address(host).is_some() || head::is_loopback(host) || app.live.get().admin.hosts.iter().any(named) {
        return next.run(request).await;
    }
    let detail = format!("{host:?} is no name of this listener: use its address, or add the name to admin.hosts");
    let body = json!({ "error": "misdirected_request", "detail": detail });
    (StatusCode::MISDIRECTED_REQUEST, axum::Json(body)).into_response()
}

async fn ready(State(AdminState { app, phases, readiness, .. }): State<AdminState>) -> Response {
    let (report, _) = readiness.look(&app, &phases).await;
    let draining = phases.is_leaving();
    let ready = report.failing.is_empty() && !draining;
    let word = |good: bool| if good { "ok" } else { "failing" };
    let body = json!({
        "status": if ready { "ready" } else { "unready" },
        "store": word(report.is_well(&["store", "reads", "disk"])),
        "actors": word(report.actors_are_well()),
        "upstream": if report.upstream_is_well() { "ok" } else { "degraded" },
        "draining": draining,
        "failing": report.failing,
        "degraded": report.degraded,
        "nodes": nodes(&app),
    });
    (if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, axum::Json(body)).into_response()
}

/// The other nodes, as the actor `node` last read them.
fn nodes(app: &App) -> Vec<Value> {
    let described = |node: &NodeRecord| {
        let traits = &node.traits;
        json!({
            "id": traits.id,
            "name": traits.name,
            "address": traits.address,
            "operator_address": traits.operator_address,
            "version": traits.version,
            "configuration": short(&traits.configuration),
            "clock_ahead_ms": traits.clock_ahead.num_milliseconds(),
            "silent": node.is_silent(),
            "ready": node.unready.is_none() && !node.is_draining,
        })
    };
    app.nodes.seen().others.iter().map(described).collect()
}

async fn metrics(State(AdminState { app, gauges, .. }): State<AdminState>) -> Response {
    gauges.refresh(&app).await;
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], telemetry::metrics_text()).into_response()
}

async fn tree(State(AdminState { app, .. }): State<AdminState>) -> Response {
    match app.root.tree(TREE_DEADLINE).await {
        Ok(tree) => axum::Json(tree).into_response(),
        Err(refusal) => {
            (StatusCode::SERVICE_UNAVAILABLE, axum::Json(json!({ "error": refusal.reason() }))).into_response()
        }
    }
}
