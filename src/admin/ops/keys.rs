//! `/ops/v1/keys…`: keys with crashed or quarantined actors, on all nodes (`docs/decisions/0043-one-key.md`).

use app::App;
use app::pauses::NewPause;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, Path, State};
use domain::UnknownName;
use domain::act::ActKind;
use domain::actor_key::{ActorKey, KeyedKind};
use domain::ids::UserAccountId;
use domain::service_pause::{PausedFor, ServicePart};
use serde::Deserialize;
use wire::ops::{KeyList, KeyShown, ObjectChanged, QuarantineRequest, ReasonRequest, ServicePauseEntry};

use super::door::RequestedAct;
use super::pauses::begin_as;
use super::refusal::Refusal;
use super::request::{self, LASTS, OpsQuery, body, lasting, reason};

/// The query of the list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyQuery {
    kind: Option<String>,
    key: Option<String>,
    request: Option<String>,
    account: Option<UserAccountId>,
    order: Option<String>,
    limit: Option<usize>,
}

/// `GET /ops/v1/keys`: keys with recently crashed or quarantined actors.
pub async fn list(
    State(app): State<App>,
    OpsQuery(KeyQuery { kind, key, request, account, order, limit }): OpsQuery<KeyQuery>,
) -> Result<Json<KeyList>, Refusal> {
    let limit = request::limit(limit)?;
    let kind = kind.as_deref().map(keyed).transpose()?;
    let mut keys = match account {
        Some(account) => app.keys_of_account(&account).await?,
        None => app.keys(kind).await?,
    };
    keys.retain(|entry| kind.is_none_or(|kind| entry.kind == kind.as_str()));
    keys.retain(|entry| key.as_ref().is_none_or(|key| entry.key == *key));
    keys.retain(|entry| request.is_none() || entry.request_id == request);
    match order.as_deref() {
        None | Some("crashes") => {}
        Some("age") => keys.sort_by(|one, other| other.last_crash_at.cmp(&one.last_crash_at)),
        Some(_) => return Err(Refusal::invalid("invalid_query", "order must be crashes or age")),
    }
    keys.truncate(limit);
    Ok(Json(KeyList { keys }))
}

/// `GET /ops/v1/keys/{kind}/{key}`: one key, with its actor on this node and its row.
pub async fn show(
    State(app): State<App>,
    Path((kind, key)): Path<(String, String)>,
) -> Result<Json<KeyShown>, Refusal> {
    Ok(Json(app.key(named(&kind, &key)?).await?))
}

/// `POST /ops/v1/keys/{kind}/{key}/quarantine`: refuses a key for a time, on all nodes.
pub async fn quarantine(
    State(app): State<App>,
    Path((kind, key)): Path<(String, String)>,
    Extension(requested): Extension<RequestedAct>,
    bytes: Bytes,
) -> Result<Json<ServicePauseEntry>, Refusal> {
    let QuarantineRequest { reason: why, lasts, replace: replaces } = body(&bytes)?;
    let (key, reason) = (named(&kind, &key)?, reason(why.as_deref())?);
    let lasts = lasting(lasts.as_deref())?.unwrap_or(LASTS);
    let now = app.clock.now();
    let act = requested.act().on(key.kind.as_str(), key.id).because(Some(reason.clone())).until(now + lasts);
    let new = NewPause { part: ServicePart::Actor, scope: PausedFor::Key(key), reason, lasts, replaces };
    begin_as(&app, &requested, act, new, now).await
}

/// `POST /ops/v1/keys/{kind}/{key}/release`: ends each quarantine of a key, on all nodes. `…/restart`: lets its actor end, on the node
/// that has it.
pub async fn order(
    State(app): State<App>,
    Path((kind, key)): Path<(String, String)>,
    Extension(requested): Extension<RequestedAct>,
    bytes: Bytes,
) -> Result<Json<ObjectChanged>, Refusal> {
    let ReasonRequest { reason: why } = body(&bytes)?;
    let (key, why) = (named(&kind, &key)?, reason(why.as_deref())?);
    let act = requested.act().on(key.kind.as_str(), key.id).because(Some(why));
    let acting = requested.acting(&app, act.clone());
    match act.act {
        ActKind::KeyRelease => app.release_key(&acting, act, key).await?,
        _ => app.order_all(&acting, act, None).await?,
    }
    Ok(Json(ObjectChanged { target: key.to_string(), act_id: acting.id }))
}

fn keyed(name: &str) -> Result<KeyedKind, Refusal> {
    name.parse().map_err(|error: UnknownName| Refusal::not_found(error.to_string()))
}

fn named(kind: &str, key: &str) -> Result<ActorKey, Refusal> {
    let id = key.parse().map_err(|_| Refusal::not_found("a key is the id of a registration, computer or batch"))?;
    Ok(ActorKey { kind: keyed(kind)?, id })
}
