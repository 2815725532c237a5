//! `GET /ops/v1/cluster`: the nodes on this database. `/ops/v1/nodes/{node}/…`: the actors of a node, `drain`, which takes it out of service
//! without ending it, and `restart` and `kill` of one actor.

use app::{App, host_name, nodes, overrides, pauses};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, Path, State};
use axum::response::Response;
use domain::clock::date_time;
use serde_json::{Value, json};
use wire::ops::{Cluster, NodeTree};

use super::door::RequestedAct;
use super::orders::{carry_out, named, unknown_actor};
use super::refusal::Refusal;
use super::request::{OpsQuery, TREE_DEADLINE, WithReason, only_reason, reason};
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

/// `GET /ops/v1/nodes/{node}/tree`: the actors of a node.
pub async fn tree(State(app): State<App>, Path(node): Path<String>) -> Result<Json<NodeTree>, Refusal> {
    Ok(Json(tree_of(&app, &node).await?))
}

/// `GET /ops/v1/nodes/{node}/tree/{actor}`: one actor of a node.
pub async fn actor(
    State(app): State<App>,
    Path((node, actor)): Path<(String, String)>,
) -> Result<Json<NodeTree>, Refusal> {
    let mut whole = tree_of(&app, &node).await?;
    let children = whole.tree.get_mut("children").map(Value::take).unwrap_or_default();
    let Value::Array(children) = children else { return Err(unknown_actor(&actor, &[])) };
    let names: Vec<String> = children.iter().filter_map(|child| Some(child["name"].as_str()?.to_owned())).collect();
    let child = children.into_iter().find(|child| child["name"] == actor.as_str());
    whole.tree = child.ok_or_else(|| unknown_actor(&actor, &names))?;
    Ok(Json(whole))
}

/// The actors of this node.
pub async fn own_tree(app: &App) -> Result<NodeTree, Refusal> {
    let tree = app.root.tree(TREE_DEADLINE).await.map_err(|error| Refusal::fault(&error))?;
    let at = date_time(app.clock.now());
    Ok(NodeTree { id: app.nodes.id(), node: host_name(), at, age_ms: 0, tree: json!(tree) })
}

async fn tree_of(app: &App, node: &str) -> Result<NodeTree, Refusal> {
    let now = app.clock.now();
    let Some(record) = named(app, Some(node)).await? else { return own_tree(app).await };
    let (id, at) = (record.traits.id, record.last_beat_at);
    let tree = app.store.node_tree(id).await?.unwrap_or_default();
    let age_ms = u64::try_from((now - at).num_milliseconds()).unwrap_or_default();
    Ok(NodeTree { id, node: record.traits.name, at: date_time(at), age_ms, tree })
}

/// `POST /ops/v1/nodes/{node}/actors/{actor}/restart` and `…/kill`: ends an actor, so that another is started.
pub async fn replace_actor(
    State(state): State<OpsState>,
    Path((node, actor)): Path<(String, String)>,
    Extension(requested): Extension<RequestedAct>,
    bytes: Bytes,
) -> Result<Response, Refusal> {
    let act = requested.act().on("actor", &actor).because(Some(only_reason(&bytes)?));
    carry_out(state, &requested, Some(&node), (act, false)).await
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
