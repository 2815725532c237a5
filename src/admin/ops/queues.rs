//! `/ops/v1/batches`, `…/mails`, `…/webhooks` and `…/sessions`: lists of all accounts' objects.

use app::{App, queues};
use axum::Json;
use axum::extract::State;
use domain::ids::{BatchId, MailId, PersonId, SessionId, UserAccountId, WebhookId};
use serde::Deserialize;
use store::session::PersonSessionFilter;
use uuid::Uuid;
use wire::ops::{AccountWebhookEntry, ObjectPage, PersonSessionEntry, RunningBatchEntry, UnsentMailEntry};

use super::refusal::Refusal;
use super::request::OpsQuery;

/// Entries of a page.
const PAGE: usize = 200;

/// The query of a list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct After<Id> {
    after: Option<Id>,
}

/// The query of the list of sessions.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PersonSessionQuery {
    account: Option<UserAccountId>,
    person: Option<PersonId>,
    after: Option<SessionId>,
}

/// `GET /ops/v1/batches`: running batches.
pub async fn batches(
    State(app): State<App>,
    OpsQuery(After { after }): OpsQuery<After<BatchId>>,
) -> Result<Json<ObjectPage<RunningBatchEntry>>, Refusal> {
    let rows = app.store.batches_running(after, PAGE).await?;
    Ok(page(rows, queues::batch, |batch| batch.id.as_uuid()))
}

/// `GET /ops/v1/mails`: mails that were not sent.
pub async fn mails(
    State(app): State<App>,
    OpsQuery(After { after }): OpsQuery<After<MailId>>,
) -> Result<Json<ObjectPage<UnsentMailEntry>>, Refusal> {
    let rows = app.store.mails_unsent(after, PAGE).await?;
    Ok(page(rows, queues::mail, |mail| mail.id.as_uuid()))
}

/// `GET /ops/v1/webhooks`: endpoints.
pub async fn webhooks(
    State(app): State<App>,
    OpsQuery(After { after }): OpsQuery<After<WebhookId>>,
) -> Result<Json<ObjectPage<AccountWebhookEntry>>, Refusal> {
    let rows = app.store.webhooks_overview(after, PAGE).await?;
    Ok(page(rows, queues::webhook, |webhook| webhook.id.as_uuid()))
}

/// `GET /ops/v1/sessions`: valid sessions.
pub async fn sessions(
    State(app): State<App>,
    OpsQuery(PersonSessionQuery { account, person, after }): OpsQuery<PersonSessionQuery>,
) -> Result<Json<ObjectPage<PersonSessionEntry>>, Refusal> {
    let filter = PersonSessionFilter { person, account };
    let rows = app.store.sessions_valid(&filter, after, app.clock.now(), PAGE).await?;
    Ok(page(rows, queues::session, |session| session.id.as_uuid()))
}

/// The page with these rows, of which there are at most [`PAGE`].
fn page<R, E>(rows: Vec<R>, entry: impl Fn(R) -> E, id: impl Fn(&E) -> Uuid) -> Json<ObjectPage<E>> {
    let entries: Vec<E> = rows.into_iter().map(entry).collect();
    let next = entries.last().filter(|_| entries.len() == PAGE).map(id);
    Json(ObjectPage { entries, next })
}
