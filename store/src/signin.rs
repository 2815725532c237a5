//! Codes that were mailed to sign people in (decisions, section 3; the rules are in [`domain::signin`]).

use chrono::TimeDelta;
use domain::Timestamp;
use domain::ids::Email;
use domain::secret::SecretHash;
use domain::signin::{Next, Ticket};
use sqlx::FromRow;

use crate::error::{Corrupt, During, StoreError};
use crate::row::{bytes, count, parsed, parsed_opt, secret_hash};
use crate::{Store, in_transaction, on_reader, on_writer};

/// What became of the wish for a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TicketStart {
    /// The code works, and any earlier one for the address does not.
    Started,
    /// Too many were asked for in the window.
    TooMany {
        /// How long until there is room for another.
        retry_after: TimeDelta,
    },
}

impl Store {
    /// Takes down a code in place of the address's live one, unless `codes_max` were asked for within `window` before `now`.
    pub async fn signin_start(
        &self,
        ticket: &Ticket,
        codes_max: u32,
        window: TimeDelta,
        now: Timestamp,
    ) -> Result<TicketStart, StoreError> {
        const LOCK: &str = "INSERT INTO signin_addresses (email, asked_at) VALUES ($1, $2)
            ON CONFLICT (email) DO UPDATE SET asked_at = $2";
        // Of those in the window, the one whose leaving makes room.
        const FULL: &str = "SELECT created_at FROM signin_tickets WHERE email = $1 AND created_at > $2
            ORDER BY created_at DESC LIMIT 1 OFFSET $3";
        const SUPERSEDE: &str = "UPDATE signin_tickets SET state = 'superseded' WHERE email = $1 AND state = 'live'";
        const INSERT: &str =
            "INSERT INTO signin_tickets (ticket_hash, email, sealed_code, next, created_at, expires_at, tries, state)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        let email = ticket.email.as_str();
        in_transaction!(
            &self.pool,
            |tx| {
                sqlx::query(LOCK).bind(email).bind(now).execute(&mut *tx).await?;
                let oldest: Option<Timestamp> = sqlx::query_scalar(FULL)
                    .bind(email)
                    .bind(now - window)
                    .bind(i64::from(codes_max.saturating_sub(1)))
                    .fetch_optional(&mut *tx)
                    .await?;
                match oldest {
                    _ if codes_max == 0 => return Ok(TicketStart::TooMany { retry_after: window }),
                    Some(oldest) => return Ok(TicketStart::TooMany { retry_after: oldest + window - now }),
                    None => {}
                }
                sqlx::query(SUPERSEDE).bind(email).execute(&mut *tx).await?;
                sqlx::query(INSERT)
                    .bind(ticket.token.as_bytes())
                    .bind(email)
                    .bind(&ticket.sealed_code[..])
                    .bind(ticket.next.as_ref().map(Next::as_str))
                    .bind(ticket.created_at)
                    .bind(ticket.expires_at)
                    .bind(i64::from(ticket.tries))
                    .bind(ticket.state.as_str())
                    .execute(&mut *tx)
                    .await?;
                Ok(TicketStart::Started)
            },
            commit if |outcome| *outcome == TicketStart::Started
        )
        .during("take down a sign-in code")
    }

    /// The ticket of a browser, whatever became of it.
    pub async fn signin_ticket(&self, token: &SecretHash) -> Result<Option<Ticket>, StoreError> {
        const SQL: &str = concat!("SELECT ", ticket_columns!(), " FROM signin_tickets WHERE ticket_hash = $1");
        let row: Option<TicketRow> =
            on_reader!(&self.pool, |db| sqlx::query_as(SQL).bind(token.as_bytes()).fetch_optional(db))
                .during("read a sign-in ticket")?;
        Ok(row.map(Ticket::try_from).transpose()?)
    }

    /// Spends one of `tries_max` tries of a live ticket and gives it as it then is; `None` when there is none to spend. The code is
    /// compared afterwards, so that codes typed at once get no more tries than codes typed one after the other.
    pub async fn signin_try(
        &self,
        token: &SecretHash,
        tries_max: u32,
        now: Timestamp,
    ) -> Result<Option<Ticket>, StoreError> {
        const SQL: &str = concat!(
            "UPDATE signin_tickets SET tries = tries + 1
            WHERE ticket_hash = $1 AND state = 'live' AND tries < $2 AND expires_at > $3 RETURNING ",
            ticket_columns!()
        );
        let row: Option<TicketRow> = on_writer!(&self.pool, |db| sqlx::query_as(SQL)
            .bind(token.as_bytes())
            .bind(i64::from(tries_max))
            .bind(now)
            .fetch_optional(db))
        .during("count a sign-in code")?;
        Ok(row.map(Ticket::try_from).transpose()?)
    }

    /// Uses up a live ticket. Exactly one of any number of calls gives `true`.
    pub async fn signin_use(&self, token: &SecretHash, now: Timestamp) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE signin_tickets SET state = 'used'
            WHERE ticket_hash = $1 AND state = 'live' AND expires_at > $2";
        let done = on_writer!(&self.pool, |db| async {
            let query = sqlx::query(SQL).bind(token.as_bytes()).bind(now);
            query.execute(db).await.map(|done| done.rows_affected())
        })
        .during("use a sign-in code")?;
        Ok(done == 1)
    }
}

macro_rules! ticket_columns {
    () => {
        "ticket_hash, email, sealed_code, next, created_at, expires_at, tries, state"
    };
}
use ticket_columns;

#[derive(FromRow)]
struct TicketRow {
    ticket_hash: Vec<u8>,
    email: String,
    sealed_code: Vec<u8>,
    next: Option<String>,
    created_at: Timestamp,
    expires_at: Timestamp,
    tries: i64,
    state: String,
}

impl TryFrom<TicketRow> for Ticket {
    type Error = Corrupt;

    fn try_from(row: TicketRow) -> Result<Self, Corrupt> {
        Ok(Self {
            token: secret_hash("signin_tickets.ticket_hash", &row.ticket_hash)?,
            email: parsed::<Email>("signin_tickets.email", &row.email)?,
            sealed_code: bytes("signin_tickets.sealed_code", &row.sealed_code)?,
            next: parsed_opt("signin_tickets.next", row.next.as_deref())?,
            created_at: row.created_at,
            expires_at: row.expires_at,
            tries: count("signin_tickets.tries", row.tries)?,
            state: parsed("signin_tickets.state", &row.state)?,
        })
    }
}
