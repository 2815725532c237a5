//! Running batches and unsent mails, for operators.

use domain::clock::date_time;
use store::batch::RunningBatch;
use store::mail::UnsentMail;
use wire::ops::{RunningBatchEntry, UnsentMailEntry};

/// A running batch.
pub fn batch(found: RunningBatch) -> RunningBatchEntry {
    let (runner, leased_until) = found.lease.unzip();
    RunningBatchEntry {
        id: found.id,
        kind: <&'static str>::from(found.kind).to_owned(),
        user_account_id: found.account,
        total: found.total,
        processed: found.processed,
        created_at: date_time(found.created_at),
        cancelled_at: found.cancelled_at.map(date_time),
        runner,
        leased_until: leased_until.map(date_time),
    }
}

/// A mail that was not sent.
pub fn mail(found: UnsentMail) -> UnsentMailEntry {
    UnsentMailEntry {
        id: found.id,
        to: found.to,
        subject: found.subject,
        created_at: date_time(found.created_at),
        tries: found.tries,
        next_try_at: found.given_up_at.is_none().then(|| date_time(found.next_try_at)),
        given_up_at: found.given_up_at.map(date_time),
    }
}
