//! `GET /ops/v1/flow` and `…/outbox`: work that waits or runs. `GET /ops/v1/log`: the embedded event log.

use app::App;
use axum::Json;
use axum::extract::State;
use domain::clock::date_time;
use statistics::parts::Logs;
use store::outbox::{ServiceChain, WaitingChain};
use wire::ops::{Flow, HeldNumber, LogState, OutboxChain, OutboxPage};

use super::refusal::Refusal;

/// Numbers above this one are not counted on.
const COUNTED_MAX: usize = 1_000;

/// Maximum number of chains in the list.
const CHAINS_MAX: usize = 200;

/// `GET /ops/v1/flow`: numbers of held events, running batches and unsent mails.
pub async fn flow(State(app): State<App>) -> Result<Json<Flow>, Refusal> {
    Ok(Json(flow_of(&app).await?))
}

/// The numbers now.
pub async fn flow_of(app: &App) -> Result<Flow, Refusal> {
    let (held, batches, mails) = tokio::try_join!(
        app.store.held_counts(),
        app.store.batches_running(None, COUNTED_MAX),
        app.store.mails_unsent(None, COUNTED_MAX)
    )?;
    let held = held.into_iter().map(|count| HeldNumber {
        reason: count.reason.as_str().to_owned(),
        number: count.number,
        oldest_at: date_time(count.oldest_at),
    });
    Ok(Flow { held: held.collect(), batches: batches.len(), mails: mails.len() })
}

/// `GET /ops/v1/outbox`: events of the service itself that wait for the statistics service.
pub async fn outbox(State(app): State<App>) -> Result<Json<OutboxPage>, Refusal> {
    let chain = |WaitingChain { chain, waiting, oldest_at }| OutboxChain {
        chain: match chain {
            ServiceChain::Identity(identity) => identity.to_string(),
            ServiceChain::Installation => "operator_acts".to_owned(),
        },
        waiting,
        oldest_at: date_time(oldest_at),
    };
    let chains = app.store.outbox_overview(CHAINS_MAX).await?;
    Ok(Json(OutboxPage { chains: chains.into_iter().map(chain).collect() }))
}

/// `GET /ops/v1/log`: the embedded event log.
pub async fn log(State(app): State<App>) -> Result<Json<LogState>, Refusal> {
    let Some(log) = app.upstream.logs().map(Logs::first) else {
        return Err(Refusal::not_found("the statistics service is external, so this server has no event log"));
    };
    let status = log.standing().await.map_err(|error| Refusal::fault(&error))?;
    Ok(Json(LogState {
        origin: app.settings.log.origin.clone(),
        tree_size: status.tree_size,
        signed_at: date_time(status.signed_at),
        unplaced: status.unplaced,
        unindexed: status.unindexed,
        signs: log.is_sequencer(),
        halted: log.halted().map(|halt| halt.reason),
    }))
}
