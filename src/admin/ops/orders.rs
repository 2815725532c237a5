//! Orders to a node: the one that answers executes its own, and asks another one through the database (`docs/decisions/0042-orders-to-nodes.md`).

use std::time::Duration;

use app::phase::Phases;
use app::{App, Reloaded, SettingChange, host_name};
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use domain::act::{ActKind, ActOutcome, ActReason, OperatorAct};
use domain::actor_key::ActorKey;
use domain::clock::date_time;
use domain::ids::EventId;
use domain::node::{NodeRecord, NodeTraits};
use domain::node_order::{ExecutedOrder, NodeOrder, OrderAnswer};
use serde::Serialize;
use serde_json::json;
use supervision::root::{Node, NotReplaced};
use tokio::time::Instant;
use wire::ops::{ActorReplaced, NodeDrained, OrderPending, ReloadReport, SettingChanged};

use super::door::RequestedAct;
use super::refusal::Refusal;
use super::request::{TREE_DEADLINE, nearest};
use super::state::OpsState;

/// Time for which a request waits for the answer of another node.
const WAITS: Duration = Duration::from_secs(2);

/// Interval at which it looks for the answer.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Time after which an order without an answer has failed.
const FAILS_AFTER: Duration = Duration::from_secs(30);

/// Executes orders of other nodes to this one from now on.
pub fn follow(app: &App, phases: &Phases) {
    let (weak, phases) = (app.downgrade(), phases.clone());
    app.orders.set(Box::new(move |order| {
        let (app, phases) = (weak.upgrade(), phases.clone());
        Box::pin(async move {
            match app {
                Some(app) => execute(&app, &phases, order.act, order.dry_run).await,
                None => refused(order.act, &Refusal::new(StatusCode::CONFLICT, "stopping", "the node stops")),
            }
        })
    }));
}

/// Carries an order out on the node with this name of the host or id, or on this one. The response names the act.
pub async fn carry_out(
    OpsState { app, phases, .. }: OpsState,
    requested: &RequestedAct,
    node: Option<&str>,
    (act, dry_run): (OperatorAct, bool),
) -> Result<Response, Refusal> {
    let Some(node) = destination(&app, node).await? else {
        let ExecutedOrder { act, outcome, answer } = execute(&app, &phases, act, dry_run).await;
        if dry_run {
            return answered(answer, None);
        }
        app.record_later(requested.acting(&app, act), outcome);
        return answered(answer, Some(requested.id));
    };
    let act = OperatorAct { node: node.name, ..act };
    let id = requested.id;
    let now = app.clock.now();
    let order = NodeOrder { id, node: Some(node.id), act, dry_run, until: now + FAILS_AFTER };
    app.store.node_order_add(&order, now).await?;
    if !dry_run {
        // The node that answers the order records the act.
        requested.set_recorded();
    }
    let deadline = Instant::now() + WAITS;
    while Instant::now() < deadline {
        tokio::time::sleep(LOOK_EVERY).await;
        let answer = app.store.node_order_answer(id).await?;
        if let Some(answer) = answer {
            return answered(answer, (!dry_run).then_some(id));
        }
    }
    Ok((StatusCode::ACCEPTED, Json(OrderPending { pending: true, act_id: id })).into_response())
}

/// The node with this name of its host or this id, which answers orders; `None` for this one.
async fn destination(app: &App, node: Option<&str>) -> Result<Option<NodeTraits>, Refusal> {
    let Some(record) = named(app, node).await? else { return Ok(None) };
    let silent = || Refusal::new(StatusCode::CONFLICT, "node_silent", "the node writes its row no more");
    if record.is_silent() { Err(silent()) } else { Ok(Some(record.traits)) }
}

/// The node with this name of its host or this id; `None` for this one. Of several nodes with one name it is the one that is not silent.
pub async fn named(app: &App, node: Option<&str>) -> Result<Option<NodeRecord>, Refusal> {
    let Some(node) = node.filter(|node| *node != host_name() && *node != app.nodes.id().to_string()) else {
        return Ok(None);
    };
    let nodes = app.store.nodes(app.clock.now()).await?;
    let names: Vec<String> =
        nodes.iter().map(|record| format!("{} ({})", record.traits.name, record.traits.id)).collect();
    let is_named = |record: &NodeRecord| record.traits.name == node || record.traits.id.to_string() == node;
    let (mut silent, mut alive): (Vec<NodeRecord>, Vec<NodeRecord>) =
        nodes.into_iter().filter(is_named).partition(NodeRecord::is_silent);
    if alive.len() > 1 {
        let detail = format!("several nodes have this name, so name the id: {}", names.join(", "));
        return Err(Refusal::new(StatusCode::CONFLICT, "node_ambiguous", detail));
    }
    let unknown = || Refusal::not_found(format!("no node has this name or id: {}", names.join(", ")));
    Ok(Some(alive.pop().or_else(|| silent.pop()).ok_or_else(unknown)?))
}

/// The response with an answer, which names the act.
fn answered(mut answer: OrderAnswer, act_id: Option<EventId>) -> Result<Response, Refusal> {
    if answer.status != StatusCode::OK.as_u16() {
        return Err(Refusal::of(answer));
    }
    if let Some(id) = act_id {
        answer.body["act_id"] = json!(id);
    }
    Ok(Json(answer.body).into_response())
}

/// Executes an order on this node.
async fn execute(app: &App, phases: &Phases, act: OperatorAct, dry_run: bool) -> ExecutedOrder {
    let node = host_name();
    match act.act {
        ActKind::NodeDrain => {
            let why = act.reason.as_ref().map(ActReason::as_str).unwrap_or_default();
            let by = format!("by {} since {}: {why}", act.by, date_time(app.clock.now()));
            match phases.drain(by) {
                None => drained(act, node, true),
                Some(first) => {
                    let detail = format!("the node is drained {first}");
                    refused(act, &Refusal::new(StatusCode::CONFLICT, "already_draining", detail))
                }
            }
        }
        ActKind::NodeUndrain if phases.undrain().is_some() => drained(act, node, false),
        ActKind::NodeUndrain => {
            let detail = "no operator drains this node";
            refused(act, &Refusal::new(StatusCode::NOT_FOUND, "not_draining", detail))
        }
        ActKind::ConfigReload if dry_run => match app.reload_preview().await {
            Ok(report) => done(act, ActOutcome::Applied, &reported(node, report, dry_run)),
            Err(refusal) => refused(act, &refusal.into()),
        },
        ActKind::ConfigReload => match app.reload_unrecorded(act).await {
            (Ok(report), act, outcome) => done(act, outcome, &reported(node, report, dry_run)),
            (Err(refusal), act, _) => refused(act, &refusal.into()),
        },
        ActKind::ActorRestart | ActKind::ActorKill => replaced(app, act, node).await,
        ActKind::KeyRelease | ActKind::KeyRestart => {
            // Every node gets the order, and the actor runs on one at most: none answers.
            if let Some(key) = act.target.as_deref().and_then(|target| target.parse::<ActorKey>().ok()) {
                let (keyed, kind) = (app.keyed_actors(), key.kind.as_str());
                if act.act == ActKind::KeyRelease && keyed.release(&key) {
                    tracing::info!(actor.kind = kind, actor.key = %key.id, by = %act.by, "an operator ended a quarantine");
                } else if act.act == ActKind::KeyRestart && keyed.restart(&key) {
                    tracing::info!(actor.kind = kind, actor.key = %key.id, by = %act.by, "an operator restarts an actor");
                }
            }
            done(act, ActOutcome::Applied, &json!({}))
        }
        _ => {
            let detail = "this version of the server has no such order";
            refused(act, &Refusal::invalid("invalid_request", detail))
        }
    }
}

/// Ends the actor that the act names, so that its supervisor starts another.
async fn replaced(app: &App, act: OperatorAct, node: String) -> ExecutedOrder {
    let actor = act.target.as_deref().and_then(|target| target.strip_prefix("actor:")).unwrap_or_default().to_owned();
    let kills = act.act == ActKind::ActorKill;
    match app.root.replace(&actor, kills, TREE_DEADLINE).await {
        Ok(Ok(())) => {
            tracing::info!(actor.name = actor, kills, by = %act.by, "an operator ends an actor, and another is started");
            done(act, ActOutcome::Applied, &ActorReplaced { node, actor, act_id: None })
        }
        Ok(Err(NotReplaced::Unknown)) => {
            let names = app.root.tree(TREE_DEADLINE).await.map(names_of).unwrap_or_default();
            refused(act, &unknown_actor(&actor, &names))
        }
        Ok(Err(error @ (NotReplaced::Starting | NotReplaced::Ending))) => {
            refused(act, &Refusal::new(StatusCode::CONFLICT, "actor_not_running", error.to_string()))
        }
        Err(error) => refused(act, &Refusal::fault(&error)),
    }
}

fn names_of(tree: Node) -> Vec<String> {
    tree.children.into_iter().map(|child| child.name).collect()
}

/// 404 for an actor that the tree does not have.
pub fn unknown_actor(actor: &str, names: &[String]) -> Refusal {
    let names = nearest(actor, names.iter().map(String::as_str)).join(", ");
    Refusal::not_found(format!("no actor of the node is named {actor:?}: {names}"))
}

fn drained(act: OperatorAct, node: String, draining: bool) -> ExecutedOrder {
    tracing::info!(%node, draining, by = %act.by, "an operator drains this node, or puts it back into service");
    done(act, ActOutcome::Applied, &NodeDrained { node, draining, act_id: None })
}

fn done(act: OperatorAct, outcome: ActOutcome, body: &impl Serialize) -> ExecutedOrder {
    ExecutedOrder { act, outcome, answer: OrderAnswer { status: StatusCode::OK.as_u16(), body: json!(body) } }
}

fn refused(act: OperatorAct, refusal: &Refusal) -> ExecutedOrder {
    ExecutedOrder { act, outcome: ActOutcome::Refused, answer: refusal.answer() }
}

fn reported(node: String, Reloaded { applied, restart_needed, shadowed }: Reloaded, dry_run: bool) -> ReloadReport {
    let changed = |changes: Vec<SettingChange>| {
        let change = |SettingChange { path, before, after }| SettingChanged { path, before, after };
        changes.into_iter().map(change).collect()
    };
    let (applied, shadowed) = (changed(applied), changed(shadowed));
    ReloadReport { node, dry_run, applied, restart_needed, shadowed, act_id: None }
}
