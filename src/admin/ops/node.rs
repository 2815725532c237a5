//! `POST` and `DELETE /ops/v1/nodes/{node}/drain`: takes this node out of service without ending it, and back.

use app::{App, host_name};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use domain::act::{ActOutcome, ActReason, OperatorAct};
use domain::clock::date_time;
use wire::ops::{DrainRequest, NodeDrained};

use super::OpsState;
use super::door::RequestedAct;
use super::refusal::Refusal;
use super::request::{OpsQuery, WithReason, body, reason};

/// `POST /ops/v1/nodes/{node}/drain`: takes this node out of service.
pub async fn drain(
    State(OpsState { app, phases }): State<OpsState>,
    Path(node): Path<String>,
    Extension(requested): Extension<RequestedAct>,
    bytes: Bytes,
) -> Result<Json<NodeDrained>, Refusal> {
    let DrainRequest { reason: why } = body(&bytes)?;
    let act = on_this_node(requested.act(), &node)?.because(Some(reason(why.as_deref())?));
    let why = act.reason.as_ref().map(ActReason::as_str).unwrap_or_default();
    let by = format!("by {} since {}: {why}", act.by, date_time(app.clock.now()));
    match phases.drain(by) {
        None => Ok(recorded(&app, &requested, act, true)),
        Some(first) => {
            Err(Refusal::new(StatusCode::CONFLICT, "already_draining", format!("the node is drained {first}")))
        }
    }
}

/// `DELETE /ops/v1/nodes/{node}/drain`: puts this node back into service.
pub async fn undrain(
    State(OpsState { app, phases }): State<OpsState>,
    Path(node): Path<String>,
    Extension(requested): Extension<RequestedAct>,
    OpsQuery(WithReason { reason: why }): OpsQuery<WithReason>,
) -> Result<Json<NodeDrained>, Refusal> {
    let act = on_this_node(requested.act(), &node)?.because(Some(reason(why.as_deref())?));
    match phases.undrain() {
        Some(_) => Ok(recorded(&app, &requested, act, false)),
        None => Err(Refusal::new(StatusCode::NOT_FOUND, "not_draining", "no operator drains this node")),
    }
}

/// Refuses another node: nodes have no credentials for each other.
fn on_this_node(act: OperatorAct, node: &str) -> Result<OperatorAct, Refusal> {
    let here = host_name();
    if node == here {
        return Ok(act.on("node", node));
    }
    Err(Refusal::not_found(format!("this server is on {here:?}: ask the server on {node:?} itself")))
}

fn recorded(app: &App, requested: &RequestedAct, act: OperatorAct, draining: bool) -> Json<NodeDrained> {
    let node = host_name();
    tracing::info!(%node, draining, by = %act.by, "an operator drains this node, or puts it back into service");
    let act_id = app.record_later(act, ActOutcome::Applied);
    requested.is_recorded(act_id);
    Json(NodeDrained { node, draining, act_id })
}
