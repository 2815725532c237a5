//! Queue of outgoing mail. A notice is queued in the transaction that it reports.
//!
//! Mails with sign-in codes are not stored here: they stay in memory until they are sent.

use domain::Timestamp;
use domain::ids::MailId;
use domain::mail::OutgoingMail;
use uuid::Uuid;

use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::{Tx, query};
use crate::row::{count, limit, parsed, storable};
use crate::{Store, in_transaction};

/// A mail with its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedMail {
    /// Part of the `Message-ID`, so that a mail that was sent twice after a crash can be distinguished from two mails.
    pub id: MailId,
    /// Recipient, subject and text.
    pub mail: OutgoingMail,
}

/// A mail that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueMail {
    /// The queued mail.
    pub mail: QueuedMail,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Number of attempts to send it, including this one.
    pub tries: u32,
}

/// What follows after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailFailure {
    /// The mail is sent again at this time.
    TryAgainAt(Timestamp),
    /// The mail is not sent again.
    GivenUp,
}

/// A mail that was not sent, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsentMail {
    /// Id of the mail.
    pub id: MailId,
    /// Address of the recipient.
    pub to: String,
    /// Subject of the mail.
    pub subject: String,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the next attempt, or end of the lease while one runs.
    pub next_try_at: Timestamp,
    /// Number of attempts so far.
    pub tries: u32,
    /// Time at which it was given up.
    pub given_up_at: Option<Timestamp>,
}

impl Store {
    /// Unsent mails after this one, given up or not, oldest first.
    #[boxed]
    pub async fn mails_unsent(&self, after: Option<MailId>, rows_max: usize) -> Result<Vec<UnsentMail>, StoreError> {
        const SQL: &str = "SELECT id, recipient, subject, created_at, next_try_at, tries, given_up_at FROM mails
            WHERE sent_at IS NULL AND ($1 IS NULL OR id > $1) ORDER BY id LIMIT $2";
        let rows: Vec<UnsentRow> = query(SQL)
            .bind(after.map(|id| id.as_uuid()))
            .bind(limit(rows_max))
            .fetch_all(&self.pool)
            .during(Operation::ListUnsentMails)
            .await?;
        Ok(rows.into_iter().map(UnsentMail::try_from).collect::<Result<_, _>>()?)
    }

    /// Lets a mail be sent at once, also after it was given up, or gives it up (`give_up`), with the act of an operator. `false` if it was sent
    /// or is being sent.
    #[boxed]
    pub async fn mail_steer(&self, id: MailId, give_up: bool, now: Timestamp) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE mails SET next_try_at = $2, given_up_at = $3
            WHERE id = $1 AND sent_at IS NULL AND leased_by IS NULL";
        in_transaction!(
            &self.pool,
            |tx| {
                let given_up_at = give_up.then_some(now);
                let changed = query(SQL).bind(id.as_uuid()).bind(now).bind(given_up_at).execute(&mut *tx).await? > 0;
                if changed {
                    self.record_act(tx, now).await?;
                }
                Ok(changed)
            },
            commit if |changed| *changed
        )
        .during(Operation::SteerMail)
        .await
    }

    /// Queues a mail in a separate transaction.
    #[boxed]
    pub async fn mail_write(&self, mail: &QueuedMail, now: Timestamp) -> Result<(), StoreError> {
        in_transaction!(&self.pool, |tx| insert_mail(tx, mail, now).await).during(Operation::QueueMail).await
    }

    /// Takes up to `rows` due mails and leases them until `lease_until`: other callers, in any process, do not get them before
    /// that, unless this one reports a failure or its node ends.
    #[boxed]
    pub async fn mails_claim_due(
        &self,
        now: Timestamp,
        lease_until: Timestamp,
        rows: usize,
    ) -> Result<Vec<DueMail>, StoreError> {
        // The update checks the time again: PostgreSQL lets two nodes choose the same rows.
        const SQL: &str = "UPDATE mails SET next_try_at = $2, tries = tries + 1, leased_by = $4
            WHERE id IN (SELECT id FROM mails WHERE next_try_at <= $1 AND sent_at IS NULL AND given_up_at IS NULL
                ORDER BY next_try_at, id LIMIT $3)
                AND next_try_at <= $1 AND sent_at IS NULL AND given_up_at IS NULL
            RETURNING id, recipient, subject, text, created_at, tries";
        let rows: Vec<MailRow> = query(SQL)
            .bind(now)
            .bind(lease_until)
            .bind(limit(rows))
            .bind(self.holder())
            .fetch_all(self.pool.writer())
            .during(Operation::LeaseMailsToSend)
            .await?;
        Ok(rows.into_iter().map(DueMail::try_from).collect::<Result<_, _>>()?)
    }

    /// Records that a mail was sent; `false` if it was already sent or given up.
    #[boxed]
    pub async fn mail_sent(&self, id: MailId, now: Timestamp) -> Result<bool, StoreError> {
        const SQL: &str =
            "UPDATE mails SET sent_at = $2, leased_by = NULL WHERE id = $1 AND sent_at IS NULL AND given_up_at IS NULL";
        let rows_affected = query(SQL)
            .bind(id.as_uuid())
            .bind(now)
            .execute(self.pool.writer())
            .during(Operation::MarkMailAsSent)
            .await?;
        Ok(rows_affected == 1)
    }

    /// Records a failed attempt; `false` if the mail was sent or given up.
    #[boxed]
    pub async fn mail_failed(&self, id: MailId, then: MailFailure, now: Timestamp) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE mails SET next_try_at = $2, given_up_at = $3, leased_by = NULL
            WHERE id = $1 AND sent_at IS NULL AND given_up_at IS NULL";
        let (next_try_at, given_up_at) = match then {
            MailFailure::TryAgainAt(at) => (at, None),
            MailFailure::GivenUp => (now, Some(now)),
        };
        let rows_affected = query(SQL)
            .bind(id.as_uuid())
            .bind(next_try_at)
            .bind(given_up_at)
            .execute(self.pool.writer())
            .during(Operation::MarkMailAsNotSent)
            .await?;
        Ok(rows_affected == 1)
    }
}

/// Queues a mail in the caller's transaction.
pub(crate) async fn insert_mail(tx: &mut Tx<'_>, mail: &QueuedMail, now: Timestamp) -> Result<(), sqlx::Error> {
    const SQL: &str =
        "INSERT INTO mails (id, recipient, subject, text, created_at, next_try_at) VALUES ($1, $2, $3, $4, $5, $5)";
    query(SQL)
        .bind(mail.id.as_uuid())
        .bind(mail.mail.to.as_str())
        .bind(storable(&mail.mail.subject))
        .bind(storable(&mail.mail.text))
        .bind(now)
        .execute(tx)
        .await
        .map(drop)
}

crate::row! {
    struct UnsentRow {
        id: Uuid,
        recipient: String,
        subject: String,
        created_at: Timestamp,
        next_try_at: Timestamp,
        tries: i64,
        given_up_at: Option<Timestamp>,
    }
}

impl TryFrom<UnsentRow> for UnsentMail {
    type Error = Corrupt;

    fn try_from(row: UnsentRow) -> Result<Self, Corrupt> {
        Ok(Self {
            id: row.id.into(),
            to: row.recipient,
            subject: row.subject,
            created_at: row.created_at,
            next_try_at: row.next_try_at,
            tries: count("mails.tries", row.tries)?,
            given_up_at: row.given_up_at,
        })
    }
}

crate::row! {
    struct MailRow {
        id: Uuid,
        recipient: String,
        subject: String,
        text: String,
        created_at: Timestamp,
        tries: i64,
    }
}

impl TryFrom<MailRow> for DueMail {
    type Error = Corrupt;

    fn try_from(row: MailRow) -> Result<Self, Corrupt> {
        let to = parsed("mails.recipient", &row.recipient)?;
        Ok(Self {
            mail: QueuedMail { id: row.id.into(), mail: OutgoingMail { to, subject: row.subject, text: row.text } },
            created_at: row.created_at,
            tries: count("mails.tries", row.tries)?,
        })
    }
}
