//! `/ops/v1/batches…` and `/ops/v1/mails…`: running batches and unsent mails.

use app::{App, queues};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, Path, State};
use domain::act::ActKind;
use domain::ids::{BatchId, MailId};
use serde::Deserialize;
use store::StoreError;
use wire::ops::{ObjectChanged, RunningBatchList, UnsentMailList};

use super::door::RequestedAct;
use super::refusal::Refusal;
use super::request::{OpsQuery, durable, only_reason};

/// Entries of a page.
const PAGE: usize = 200;

/// The query of a list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct After<Id> {
    after: Option<Id>,
}

/// `GET /ops/v1/batches`: running batches.
pub async fn batches(
    State(app): State<App>,
    OpsQuery(After { after }): OpsQuery<After<BatchId>>,
) -> Result<Json<RunningBatchList>, Refusal> {
    let running = app.store.batches_running(after, PAGE).await?;
    let next = running.last().filter(|_| running.len() == PAGE).map(|batch| batch.id);
    Ok(Json(RunningBatchList { batches: running.into_iter().map(queues::batch).collect(), next }))
}

/// `POST /ops/v1/batches/{id}/cancel`: cancels a running batch.
pub async fn cancel_batch(
    State(app): State<App>,
    Path(id): Path<String>,
    Extension(requested): Extension<RequestedAct>,
    bytes: Bytes,
) -> Result<Json<ObjectChanged>, Refusal> {
    let why = only_reason(&bytes)?;
    let absent = || Refusal::not_found("no running batch has this id");
    let id: BatchId = id.parse().map_err(|_| absent())?;
    let (acting, now) = (requested.acting(&app, requested.act().on("batch", id).because(Some(why))), app.clock.now());
    let act_id = acting.id;
    let work = async move {
        let cancelled = acting.settle(acting.store.batch_cancel(id, None, now).await).await?;
        app.ingestion.hint_cancelled(id);
        Ok::<_, StoreError>(cancelled)
    };
    if durable(work).await? { Ok(Json(ObjectChanged { target: format!("batch:{id}"), act_id })) } else { Err(absent()) }
}

/// `GET /ops/v1/mails`: mails that were not sent.
pub async fn mails(
    State(app): State<App>,
    OpsQuery(After { after }): OpsQuery<After<MailId>>,
) -> Result<Json<UnsentMailList>, Refusal> {
    let unsent = app.store.mails_unsent(after, PAGE).await?;
    let next = unsent.last().filter(|_| unsent.len() == PAGE).map(|mail| mail.id);
    Ok(Json(UnsentMailList { mails: unsent.into_iter().map(queues::mail).collect(), next }))
}

/// `POST /ops/v1/mails/{id}/retry` and `…/give_up`: sends a mail at once, or never.
pub async fn steer_mail(
    State(app): State<App>,
    Path(id): Path<String>,
    Extension(requested): Extension<RequestedAct>,
    bytes: Bytes,
) -> Result<Json<ObjectChanged>, Refusal> {
    let why = only_reason(&bytes)?;
    let absent = || Refusal::not_found("no mail with this id waits: it was sent, is being sent, or never existed");
    let id: MailId = id.parse().map_err(|_| absent())?;
    let act = requested.act();
    let give_up = act.act == ActKind::MailGiveUp;
    let (acting, now) = (requested.acting(&app, act.on("mail", id).because(Some(why))), app.clock.now());
    let act_id = acting.id;
    let work = async move {
        let changed = acting.settle(acting.store.mail_steer(id, give_up, now).await).await?;
        app.mail.wake();
        Ok::<_, StoreError>(changed)
    };
    if durable(work).await? { Ok(Json(ObjectChanged { target: format!("mail:{id}"), act_id })) } else { Err(absent()) }
}
