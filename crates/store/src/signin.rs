//! Sign-in codes (`docs/decisions/0003-sign-in.md`; the rules are in [`domain::signin`]).

use chrono::TimeDelta;
use domain::Timestamp;
use domain::ids::Email;
use domain::secret::SecretHash;
use domain::signin::{ReturnPath, Ticket};

use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::{query, scalar};
use crate::row::{bytes, count, parsed, parsed_opt, secret_hash};
use crate::session::{NewSession, insert_session};
use crate::{Store, in_transaction, joined};

/// Result of requesting a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TicketStart {
    /// The code is valid; the browser's previous code is not any more.
    Started,
    /// The maximum number of codes was requested in the window.
    TooMany {
        /// Time until another request is permitted.
        retry_after: TimeDelta,
    },
}

/// The client that requests a code.
#[derive(Debug, Clone, Copy)]
pub struct TicketRequest<'a> {
    /// Network of the browser.
    pub network: &'a str,
    /// The browser's previous ticket, which becomes invalid.
    pub instead_of: Option<&'a SecretHash>,
}

/// Maximum numbers of codes for one e-mail address, per network, so that requests from another network do not use up the owner's quota.
#[derive(Debug, Clone, Copy)]
pub struct CodeLimits {
    /// Maximum per requesting network.
    pub per_network: u32,
    /// Maximum for all networks together.
    pub total: u32,
    /// Length of the window that ends now.
    pub window: TimeDelta,
}

impl Store {
    /// Stores a code, unless `limits` are reached.
    #[boxed]
    pub async fn signin_start(
        &self,
        ticket: &Ticket,
        asking: &TicketRequest<'_>,
        limits: &CodeLimits,
        now: Timestamp,
    ) -> Result<TicketStart, StoreError> {
        const LOCK: &str = "INSERT INTO signin_addresses (email, asked_at) VALUES ($1, $2)
            ON CONFLICT (email) DO UPDATE SET asked_at = $2";
        // The code in the window that has to expire before another is permitted.
        const FULL: &str = "SELECT created_at FROM signin_tickets
            WHERE email = $1 AND created_at > $2 AND ($4 IS NULL OR network = $4)
            ORDER BY created_at DESC LIMIT 1 OFFSET $3";
        const SUPERSEDE: &str =
            "UPDATE signin_tickets SET state = 'superseded' WHERE ticket_hash = $1 AND state = 'live'";
        const INSERT: &str = "INSERT INTO signin_tickets
                (ticket_hash, email, network, sealed_code, next, created_at, expires_at, tries, state)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        let window = limits.window;
        let email = ticket.email.as_str();
        in_transaction!(
            &self.pool,
            |tx| {
                query(LOCK).bind(email).bind(now).execute(&mut *tx).await?;
                for (codes_max, network) in [(limits.per_network, Some(asking.network)), (limits.total, None)] {
                    let oldest: Option<Timestamp> = scalar(FULL)
                        .bind(email)
                        .bind(now - window)
                        .bind(i64::from(codes_max.saturating_sub(1)))
                        .bind(network)
                        .fetch_optional(&mut *tx)
                        .await?;
                    match oldest {
                        _ if codes_max == 0 => return Ok(TicketStart::TooMany { retry_after: window }),
                        Some(oldest) => return Ok(TicketStart::TooMany { retry_after: oldest + window - now }),
                        None => {}
                    }
                }
                if let Some(before) = asking.instead_of {
                    query(SUPERSEDE).bind(before.as_bytes()).execute(&mut *tx).await?;
                }
                query(INSERT)
                    .bind(ticket.token.as_bytes())
                    .bind(email)
                    .bind(asking.network)
                    .bind(&ticket.sealed_code[..])
                    .bind(ticket.next.as_ref().map(ReturnPath::as_str))
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
        .during(Operation::StoreSignInCode)
        .await
    }

    /// The ticket of a browser, in any state.
    #[boxed]
    pub async fn signin_ticket(&self, token: &SecretHash) -> Result<Option<Ticket>, StoreError> {
        const SQL: &str = joined!("SELECT ", TICKET_COLUMNS, " FROM signin_tickets WHERE ticket_hash = $1");
        let row: Option<TicketRow> =
            query(SQL).bind(token.as_bytes()).fetch_optional(&self.pool).during(Operation::ReadSignInTicket).await?;
        Ok(row.map(Ticket::try_from).transpose()?)
    }

    /// Uses one of `tries_max` tries of a live ticket and returns the ticket; `None` if no try is left. The caller compares the code
    /// afterwards, so that concurrent attempts get no additional tries.
    #[boxed]
    pub async fn signin_try(
        &self,
        token: &SecretHash,
        tries_max: u32,
        now: Timestamp,
    ) -> Result<Option<Ticket>, StoreError> {
        const SQL: &str = joined!(
            "UPDATE signin_tickets SET tries = tries + 1
            WHERE ticket_hash = $1 AND state = 'live' AND tries < $2 AND expires_at > $3 RETURNING ",
            TICKET_COLUMNS
        );
        let row: Option<TicketRow> = query(SQL)
            .bind(token.as_bytes())
            .bind(i64::from(tries_max))
            .bind(now)
            .fetch_optional(self.pool.writer())
            .during(Operation::CountSignInCode)
            .await?;
        Ok(row.map(Ticket::try_from).transpose()?)
    }

    /// Uses a live ticket and creates its session, both or neither. Exactly one of concurrent calls returns `true`. `instead_of` is the
    /// browser's previous session, which ends.
    #[boxed]
    pub async fn signin_use(
        &self,
        token: &SecretHash,
        new: &NewSession<'_>,
        instead_of: Option<&SecretHash>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE signin_tickets SET state = 'used'
            WHERE ticket_hash = $1 AND state = 'live' AND expires_at > $2";
        in_transaction!(
            &self.pool,
            |tx| {
                let used = query(SQL).bind(token.as_bytes()).bind(now).execute(&mut *tx).await?;
                if used == 0 {
                    return Ok(false);
                }
                insert_session(tx, new, instead_of, now).await?;
                Ok(true)
            },
            commit if |used| *used
        )
        .during(Operation::UseSignInCode)
        .await
    }

    /// Uses the state of a request to an OpenID provider. Exactly one of concurrent calls with the same state returns `true`, until
    /// `expires_at`: after that the caller must reject the state.
    #[boxed]
    pub async fn signin_errand_use(&self, errand: &SecretHash, expires_at: Timestamp) -> Result<bool, StoreError> {
        const SQL: &str =
            "INSERT INTO signin_errands (errand_hash, expires_at) VALUES ($1, $2) ON CONFLICT (errand_hash) DO NOTHING";
        let rows_affected = query(SQL)
            .bind(errand.as_bytes())
            .bind(expires_at)
            .execute(self.pool.writer())
            .during(Operation::UseOpenIdState)
            .await?;
        Ok(rows_affected > 0)
    }
}

/// The columns of [`TicketRow`].
const TICKET_COLUMNS: &str = "ticket_hash, email, sealed_code, next, created_at, expires_at, tries, state";

crate::row! {
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
