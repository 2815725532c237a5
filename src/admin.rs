//! The operator's listener: health, metrics, the living actors. It asks for no credential; keep it on loopback or a closed network.
//!
//! - `GET /healthz`: the process answers. No IO.
//! - `GET /readyz`: 200 `{status: "ready", …}` while the store takes writes, the actors live and nothing is draining; otherwise 503.
//!   An external statistics service that fails is a degradation and named, never a reason to be taken out of service.
//! - `GET /metrics`: Prometheus text.
//! - `GET /actors`: the tree of living actors, with restarts and the last failure of each.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;
use tokio::sync::watch;

use crate::house::House;
use crate::telemetry;

/// How long a health check may take.
const CHECK_DEADLINE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
struct Desk {
    house: House,
    stopping: watch::Receiver<bool>,
}

/// The operator's service.
pub fn router(house: House, stopping: watch::Receiver<bool>) -> Router {
    Router::new()
        .route("/healthz", get(async || axum::Json(json!({ "status": "ok" }))))
        .route("/readyz", get(ready))
        .route("/metrics", get(async || ([(CONTENT_TYPE, "text/plain; version=0.0.4")], telemetry::metrics_text())))
        .route("/actors", get(tree))
        .fallback(async || (StatusCode::NOT_FOUND, axum::Json(json!({ "error": "not_found" }))))
        .with_state(Desk { house, stopping })
}

async fn ready(State(Desk { house, stopping }): State<Desk>) -> Response {
    let store = tokio::time::timeout(CHECK_DEADLINE, house.store.writable()).await;
    let store = matches!(store, Ok(Ok(())));
    let actors = house.root.tree(CHECK_DEADLINE).await.is_ok();
    let draining = *stopping.borrow();
    let ready = store && actors && !draining;
    let word = |good: bool| if good { "ok" } else { "failing" };
    let body = json!({
        "status": if ready { "ready" } else { "unready" },
        "store": word(store),
        "actors": word(actors),
        "upstream": if house.upstream.is_degraded() { "degraded" } else { "ok" },
        "draining": draining,
    });
    (if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, axum::Json(body)).into_response()
}

async fn tree(State(Desk { house, .. }): State<Desk>) -> Response {
    match house.root.tree(CHECK_DEADLINE).await {
        Ok(tree) => axum::Json(tree).into_response(),
        Err(refusal) => {
            (StatusCode::SERVICE_UNAVAILABLE, axum::Json(json!({ "error": refusal.reason() }))).into_response()
        }
    }
}
