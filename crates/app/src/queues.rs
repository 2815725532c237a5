//! Running batches, unsent mails, endpoints and sessions of all accounts, for operators.

use domain::clock::date_time;
use domain::signin::SignInMethod;
use store::batch::RunningBatch;
use store::mail::UnsentMail;
use store::session::SessionOverview;
use store::webhook::WebhookOverview;
use wire::ops::{AccountWebhookEntry, PersonSessionEntry, RunningBatchEntry, UnsentMailEntry};

/// A running batch.
pub fn batch(row: RunningBatch) -> RunningBatchEntry {
    let (runner, leased_until) = row.lease.unzip();
    RunningBatchEntry {
        id: row.id,
        kind: <&'static str>::from(row.kind).to_owned(),
        user_account_id: row.account,
        total: row.total,
        processed: row.processed,
        created_at: date_time(row.created_at),
        cancelled_at: row.cancelled_at.map(date_time),
        runner,
        leased_until: leased_until.map(date_time),
    }
}

/// A mail that was not sent.
pub fn mail(row: UnsentMail) -> UnsentMailEntry {
    UnsentMailEntry {
        id: row.id,
        to: row.to,
        subject: row.subject,
        created_at: date_time(row.created_at),
        tries: row.tries,
        next_try_at: row.given_up_at.is_none().then(|| date_time(row.next_try_at)),
        given_up_at: row.given_up_at.map(date_time),
    }
}

/// An endpoint. Of its URL only the host is shown: paths and queries of endpoints often are credentials of the receiver.
pub fn webhook(row: WebhookOverview) -> AccountWebhookEntry {
    let host = row.url.host_str();
    let host = row.url.as_url().port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    let (disabled_at, disabled_reason) = row.disabled.unzip();
    AccountWebhookEntry {
        id: row.id,
        user_account_id: row.account,
        host,
        enabled: disabled_at.is_none(),
        disabled_at: disabled_at.map(date_time),
        disabled_reason,
        failures: row.failures,
        last_success_at: row.last_success_at.map(date_time),
        last_failure_at: row.last_failure_at.map(date_time),
        waiting: row.waiting,
        oldest_waiting_at: row.oldest_waiting_at.map(date_time),
    }
}

/// A session of a person.
pub fn session(row: SessionOverview) -> PersonSessionEntry {
    PersonSessionEntry {
        id: row.id,
        person_id: row.person,
        user_account_id: row.account,
        kind: row.via.to_string(),
        by_operator: row.via == SignInMethod::Operator,
        created_at: date_time(row.created_at),
        last_used_at: date_time(row.last_used_at),
        expires_at: date_time(row.expires_at),
    }
}
