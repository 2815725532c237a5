//! `GET /ops/v1/cluster`: the nodes on this database. `POST` and `DELETE /ops/v1/nodes/{node}/drain`: takes a node out of service without
//! ending it, and back.

use app::{App, nodes, overrides, pauses};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, Path, State};
use axum::response::Response;
use wire::ops::Cluster;

use super::door::RequestedAct;
use super::orders::carry_out;
use super::refusal::Refusal;
use super::request::{OpsQuery, WithReason, only_reason, reason};
use super::state::OpsState;

/// `GET /ops/v1/cluster`: the nodes on this database, their differences, overrides and pauses.
pub async fn cluster(State(app): State<App>) -> Result<Json<Cluster>, Refusal> {
    let now = app.clock.now();
    let (nodes, overrides, pauses) = tokio::try_join!(
        nodes::list(&app.store, now),
        overrides::list(&app.store, now),
        pauses::list(&app.store, now)
    )?;
    let differences = app.nodes.seen().differences.into_iter().map(|found| found.text).collect();
    Ok(Json(Cluster { nodes, differences, overrides, pauses }))
}

/// `POST /ops/v1/nodes/{node}/drain`: takes a node out of service.
pub async fn drain(
    State(state): State<OpsState>,
    Path(node): Path<String>,
    Extension(requested): Extension<RequestedAct>,
    bytes: Bytes,
) -> Result<Response, Refusal> {
    let act = requested.act().on("node", &node).because(Some(only_reason(&bytes)?));
    carry_out(state, &requested, Some(&node), (act, false)).await
}

/// `DELETE /ops/v1/nodes/{node}/drain`: puts a node back into service.
pub async fn undrain(
    State(state): State<OpsState>,
    Path(node): Path<String>,
    Extension(requested): Extension<RequestedAct>,
    OpsQuery(WithReason { reason: why }): OpsQuery<WithReason>,
) -> Result<Response, Refusal> {
    let act = requested.act().on("node", &node).because(Some(reason(why.as_deref())?));
    carry_out(state, &requested, Some(&node), (act, false)).await
}
