//! Letters that wait to be sent: a notice is written in the transaction that it tells of, so that neither is there without the other.
//!
//! Sign-in codes are never here: a letter with one stays in memory until it is sent.

use domain::Timestamp;
use domain::ids::MailId;
use domain::mail::OutgoingMail;
use sqlx::FromRow;
use uuid::Uuid;

use crate::error::{Corrupt, During, StoreError};
use crate::row::{count, limit, parsed};
use crate::{Store, in_transaction, on_writer};

/// A letter with the name under which it is sent once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedMail {
    /// Its name; part of the `Message-ID`, so that a letter that was sent twice after a crash can be told from two letters.
    pub id: MailId,
    /// The letter.
    pub mail: OutgoingMail,
}

/// A letter whose time has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueMail {
    /// The letter.
    pub mail: QueuedMail,
    /// When it was written.
    pub created_at: Timestamp,
    /// How often sending it was begun, this time included.
    pub tries: u32,
}

/// What follows a failure to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailFailure {
    /// It is tried again at this time.
    TryAgainAt(Timestamp),
    /// It is not tried again.
    GivenUp,
}

impl Store {
    /// Takes down a letter by itself.
    pub async fn mail_write(&self, mail: &QueuedMail, now: Timestamp) -> Result<(), StoreError> {
        in_transaction!(&self.pool, |tx| mail_insert!(tx, mail, now).await.map(drop)).during("take down a letter")
    }

    /// Takes up to `rows` letters whose time has come and puts their next try off until `lease_until`: whoever asks next, here or on
    /// another node, does not get them unless this one fails to report by then.
    pub async fn mails_claim_due(
        &self,
        now: Timestamp,
        lease_until: Timestamp,
        rows: usize,
    ) -> Result<Vec<DueMail>, StoreError> {
        // The time is looked at again in the update itself: PostgreSQL lets two nodes choose the same rows.
        const SQL: &str = "UPDATE mails SET next_try_at = $2, tries = tries + 1
            WHERE id IN (SELECT id FROM mails WHERE next_try_at <= $1 AND sent_at IS NULL AND given_up_at IS NULL
                ORDER BY next_try_at, id LIMIT $3)
                AND next_try_at <= $1 AND sent_at IS NULL AND given_up_at IS NULL
            RETURNING id, recipient, subject, text, created_at, tries";
        let rows: Vec<MailRow> = on_writer!(&self.pool, |db| sqlx::query_as(SQL)
            .bind(now)
            .bind(lease_until)
            .bind(limit(rows))
            .fetch_all(db))
        .during("take letters to send")?;
        Ok(rows.into_iter().map(DueMail::try_from).collect::<Result<_, _>>()?)
    }

    /// A letter was sent; `false` when that was known, or it was given up.
    pub async fn mail_sent(&self, id: MailId, now: Timestamp) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE mails SET sent_at = $2 WHERE id = $1 AND sent_at IS NULL AND given_up_at IS NULL";
        let done = on_writer!(&self.pool, |db| async {
            let query = sqlx::query(SQL).bind(id.as_uuid()).bind(now);
            query.execute(db).await.map(|done| done.rows_affected())
        })
        .during("note that a letter was sent")?;
        Ok(done == 1)
    }

    /// A letter could not be sent; `false` when it was sent or given up meanwhile.
    pub async fn mail_failed(&self, id: MailId, then: MailFailure, now: Timestamp) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE mails SET next_try_at = $2, given_up_at = $3
            WHERE id = $1 AND sent_at IS NULL AND given_up_at IS NULL";
        let (next_try_at, given_up_at) = match then {
            MailFailure::TryAgainAt(at) => (at, None),
            MailFailure::GivenUp => (now, Some(now)),
        };
        let done = on_writer!(&self.pool, |db| async {
            let query = sqlx::query(SQL).bind(id.as_uuid()).bind(next_try_at).bind(given_up_at);
            query.execute(db).await.map(|done| done.rows_affected())
        })
        .during("note that a letter was not sent")?;
        Ok(done == 1)
    }
}

/// Takes down a letter within a transaction that the caller holds; an expression of a future of the driver's result.
macro_rules! mail_insert {
    ($tx:ident, $mail:expr, $now:expr) => {
        sqlx::query($crate::mail::MAIL_INSERT)
            .bind($mail.id.as_uuid())
            .bind($mail.mail.to.as_str())
            .bind($crate::row::storable(&$mail.mail.subject).into_owned())
            .bind($crate::row::storable(&$mail.mail.text).into_owned())
            .bind($now)
            .execute(&mut *$tx)
    };
}
pub(crate) use mail_insert;

pub(crate) const MAIL_INSERT: &str =
    "INSERT INTO mails (id, recipient, subject, text, created_at, next_try_at) VALUES ($1, $2, $3, $4, $5, $5)";

#[derive(FromRow)]
struct MailRow {
    id: Uuid,
    recipient: String,
    subject: String,
    text: String,
    created_at: Timestamp,
    tries: i64,
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
