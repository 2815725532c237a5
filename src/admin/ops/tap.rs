//! `GET /ops/v1/tap`: samples of the events that senders submit to this node, without their content, as server-sent events.

use std::time::Duration;

use actors::intake::tap::{OUTCOMES, TapFilter, TapSample};
use axum::body::Bytes;
use axum::extract::{Extension, State};
use axum::response::Response;
use domain::act::ActOutcome;
use domain::clock::date_time;
use domain::ids::{MachineUuid, UserAccountId};
use futures_util::stream::{self, StreamExt as _};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;
use wire::ops::{TapBegun, TapEntry};

use super::door::RequestedAct;
use super::refusal::Refusal;
use super::request::{OpsQuery, lasting, reason};
use super::state::OpsState;
use super::stream::{event, place, server_sent};

/// Time for which a tap is open, and the maximum.
const LASTS: Duration = Duration::from_secs(30);
const LASTS_MAX: Duration = Duration::from_mins(1);

/// Time without a sample after which a comment is sent.
const QUIET: Duration = Duration::from_secs(15);

/// The query of a tap.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TapQuery {
    one_in: Option<u64>,
    #[serde(rename = "for")]
    lasts: Option<String>,
    outcome: Option<String>,
    account: Option<UserAccountId>,
    machine: Option<MachineUuid>,
    reason: Option<String>,
}

/// `GET /ops/v1/tap`: one event `begun` with the act, an event `sample` for each sample, and `end`.
pub async fn watch(
    State(OpsState { app, phases, streams }): State<OpsState>,
    Extension(requested): Extension<RequestedAct>,
    OpsQuery(TapQuery { one_in, lasts, outcome, account, machine, reason: why }): OpsQuery<TapQuery>,
) -> Result<Response, Refusal> {
    let why = reason(why.as_deref())?;
    let lasts = lasting(lasts.as_deref())?.unwrap_or(LASTS);
    if lasts.is_zero() || lasts > LASTS_MAX {
        return Err(Refusal::invalid("invalid_query", "for: more than 0s, and 60s at most"));
    }
    if let Some(outcome) = outcome.as_ref().filter(|outcome| !OUTCOMES.contains(&outcome.as_str())) {
        let detail = format!("outcome: {outcome:?} is none of {}", OUTCOMES.join(", "));
        return Err(Refusal::invalid("invalid_query", detail));
    }
    let permit = place(&streams)?;
    let until = app.clock.now() + lasts;
    let filter = json!({ "one_in": one_in, "outcome": outcome, "account": account, "machine": machine });
    let acting = requested.acting(&app, requested.act().because(Some(why)).until(until).to(filter));
    acting.record(ActOutcome::Applied).await?;
    let tap = app.intake.taps.open(TapFilter { one_in: one_in.unwrap_or(1), outcome, account, machine });
    let begun = TapBegun { act_id: acting.id, until: date_time(until) };
    let begun = stream::iter([Bytes::from(event("begun", None, &begun))]);
    let end = Instant::now() + lasts;
    let samples = stream::unfold((tap, permit), |(mut tap, permit)| async move {
        let piece = match tokio::time::timeout(QUIET, tap.next()).await {
            Ok(sample) => Bytes::from(event("sample", None, &described(sample?))),
            Err(_) => Bytes::from_static(b":\n\n"),
        };
        Some((piece, (tap, permit)))
    });
    let samples = samples.take_until(tokio::time::sleep_until(end));
    let last = stream::iter([Bytes::from_static(b"event: end\ndata: {}\n\n")]);
    Ok(server_sent(begun.chain(samples).chain(last), phases))
}

fn described(sample: TapSample) -> TapEntry {
    TapEntry {
        at: date_time(sample.at),
        payer: sample.payer,
        outcome: sample.outcome.to_owned(),
        reason: sample.reason,
        bytes: sample.bytes,
        took_ms: sample.took.as_secs_f64() * 1e3,
        event_id: sample.event_id,
        event_type: sample.event_type,
        lane: sample.lane.map(|lane| lane.as_str().to_owned()),
        machine_id: sample.machine,
        skipped: sample.skipped,
    }
}
