//! `/ops/v1/held…`: lists held events, and releases or discards many (`docs/decisions/0044-held-events-in-bulk.md`).

use app::App;
use app::held::{self, HeldEnd};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, State};
use chrono::TimeDelta;
use domain::UnknownName;
use domain::act::{ActKind, ActOutcome};
use domain::held::HoldReason;
use domain::ids::HeldId;
use serde::Deserialize;
use serde_json::json;
use store::held::{HeldFilter, HeldState, Sender, UnknownSender};
use wire::ops::{HeldEndRequest, HeldEnded, HeldPage, HeldSelection};

use super::door::RequestedAct;
use super::refusal::Refusal;
use super::request::{self, OpsQuery, body, reason};

/// Maximum number of events of a request.
const ENDED_MAX: usize = 1_000;

/// Matches that a preview counts.
const MATCHES_MAX: usize = 100_000;

/// Time for which a preview may be carried out.
const PREVIEW_LASTS: TimeDelta = TimeDelta::minutes(10);

/// The query of the list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldQuery {
    reason: Option<String>,
    sender: Option<String>,
    state: Option<String>,
    before: Option<HeldId>,
    limit: Option<usize>,
}

/// `GET /ops/v1/held`: held events, newest first.
pub async fn list(
    State(app): State<App>,
    OpsQuery(HeldQuery { reason, sender, state, before, limit }): OpsQuery<HeldQuery>,
) -> Result<Json<HeldPage>, Refusal> {
    let selection = HeldSelection { reason, sender };
    let invalid = |error: String| Refusal::invalid("invalid_query", error);
    let state = match state.as_deref() {
        None => Some(HeldState::Held),
        Some("any") => None,
        Some(state) => Some(state.parse().map_err(|error: &str| invalid(format!("state: {error}")))?),
    };
    let limit = request::limit(limit)?;
    let filter = HeldFilter { state, before, ..filter(&selection).map_err(invalid)? };
    let entries = app.store.held_list(&filter, limit).await?;
    let next = entries.last().filter(|_| entries.len() == limit).map(|entry| entry.id);
    Ok(Json(HeldPage { held: entries.iter().map(held::described).collect(), next }))
}

/// `POST /ops/v1/held:release` and `…:discard`: ends the events with these ids, or the matches that a preview has counted.
pub async fn end(
    State(app): State<App>,
    Extension(requested): Extension<RequestedAct>,
    bytes: Bytes,
) -> Result<Json<HeldEnded>, Refusal> {
    let HeldEndRequest { ids, filter: selection, dry_run, token, after, reason: why } = body(&bytes)?;
    requested.set_dry_run(dry_run);
    let why = reason(why.as_deref())?;
    let act = requested.act();
    let end = if act.act == ActKind::HeldRelease { HeldEnd::Release } else { HeldEnd::Discard };
    let invalid = |error: &str, detail: &str| Refusal::invalid(error, detail);
    let (ids, object) = match (ids, selection) {
        (Some(ids), None) => {
            if dry_run || ids.is_empty() || ids.len() > ENDED_MAX {
                return Err(invalid("invalid_request", "ids: 1 to 1,000, without a dry run"));
            }
            let object = if let [id] = &ids[..] { id.to_string() } else { format!("{} ids", ids.len()) };
            (ids, object)
        }
        (None, Some(selection)) => {
            if selection == HeldSelection::default() {
                return Err(invalid("filter_empty", "filter: a reason or a sender is needed"));
            }
            let matching =
                filter(&selection).map_err(|error| invalid("invalid_request", &format!("filter: {error}")))?;
            let matching = HeldFilter { state: Some(HeldState::Held), ..matching };
            if dry_run {
                let token: HeldId = app.rng.uuid_v7(app.clock.now()).into();
                let matches = app.store.held_ids(&matching, None, MATCHES_MAX).await?.len();
                return Ok(Json(HeldEnded {
                    matches,
                    token: Some(token),
                    ended: Vec::new(),
                    next: None,
                    act_id: None,
                }));
            }
            let token = token.ok_or_else(|| invalid("token_missing", "a dry run returns the token of this filter"))?;
            // The token is a new id of an entry: the preview matched the entries before it.
            let made_at = token.as_uuid().get_timestamp().map_or(0, |made_at| made_at.to_unix().0);
            let oldest = u64::try_from((app.clock.now() - PREVIEW_LASTS).timestamp()).unwrap_or(0);
            if made_at < oldest {
                return Err(invalid("token_expired", "the dry run is older than ten minutes: repeat it"));
            }
            let matching = HeldFilter { before: Some(token), ..matching };
            (app.store.held_ids(&matching, after, ENDED_MAX).await?, json!(selection).to_string())
        }
        _ => return Err(invalid("invalid_request", "either ids or a filter is needed")),
    };
    let acting = requested.acting(&app, act.on("held", object).because(Some(why)).to(json!({ "number": ids.len() })));
    acting.record(ActOutcome::Begun).await?;
    let ended = app.end_held(&ids, end).await;
    let next = ids.last().copied().filter(|_| ids.len() == ENDED_MAX);
    Ok(Json(HeldEnded { matches: ids.len(), token: None, ended, next, act_id: Some(acting.id) }))
}

fn filter(HeldSelection { reason, sender }: &HeldSelection) -> Result<HeldFilter, String> {
    let reason = reason.as_deref().map(str::parse::<HoldReason>).transpose();
    let sender = sender.as_deref().map(str::parse::<Sender>).transpose();
    Ok(HeldFilter {
        reason: reason.map_err(|error: UnknownName| format!("reason: {error}"))?,
        sender: sender.map_err(|error: UnknownSender| format!("sender: {error}"))?,
        ..HeldFilter::default()
    })
}
