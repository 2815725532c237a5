//! `GET /ops/v1/keys`: keys with recently crashed actors. `POST /ops/v1/nodes/{node}/keys/{kind}/{key}/release`: ends a quarantine.

use actors::ActorKind;
use app::{App, host_name};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, Path, State};
use axum::response::Response;
use serde::Deserialize;
use wire::ops::{CrashedKeyList, ReasonRequest};

use super::door::RequestedAct;
use super::orders::carry_out;
use super::refusal::Refusal;
use super::request::{OpsQuery, body, reason};
use super::state::OpsState;

/// The query of the list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfKind {
    kind: Option<String>,
}

/// `GET /ops/v1/keys`: the keys of this node with recently crashed actors.
pub async fn list(
    State(app): State<App>,
    OpsQuery(OfKind { kind }): OpsQuery<OfKind>,
) -> Result<Json<CrashedKeyList>, Refusal> {
    let kind = kind.as_deref().map(keyed).transpose()?;
    Ok(Json(CrashedKeyList { node: host_name(), keys: app.crashed_keys(kind) }))
}

/// `POST /ops/v1/nodes/{node}/keys/{kind}/{key}/release`: ends the quarantine of a key on a node.
pub async fn release(
    State(state): State<OpsState>,
    Path((node, kind, key)): Path<(String, String, String)>,
    Extension(requested): Extension<RequestedAct>,
    bytes: Bytes,
) -> Result<Response, Refusal> {
    let ReasonRequest { reason: why } = body(&bytes)?;
    let act = requested.act().because(Some(reason(why.as_deref())?));
    let act = act.on(keyed(&kind)?.name(), &key);
    carry_out(state, &requested, Some(&node), (act, false)).await
}

/// A kind with one actor for each key.
fn keyed(name: &str) -> Result<ActorKind, Refusal> {
    let kinds = [ActorKind::Claims, ActorKind::Devices, ActorKind::Batches];
    let absent = || Refusal::not_found("kinds with keys are claims, devices and batches");
    kinds.into_iter().find(|kind| kind.name() == name).ok_or_else(absent)
}
