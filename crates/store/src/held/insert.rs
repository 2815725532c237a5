//! Holding many events in one transaction.
//!
//! 1. Lock the senders: from here on no other transaction changes their held events. SQLite has one writer; on PostgreSQL events of senders that
//!    another transaction has locked leave the group ([`shared`]).
//! 2. Read the remaining quota of each sender, and of each unclaimed agent, and whether it is still unclaimed.
//! 3. Take the events in the order given: find those that are held already, insert those that fit. An entry takes over the reason of a
//!    repetition, which was judged by newer facts. SQLite does that row by row with prepared statements, PostgreSQL in statements of many rows.
//! 4. Add the inserted events to the totals, and to those of the senders.

mod postgres;
mod shared;
mod sqlite;

use std::collections::HashMap;

use chrono::TimeDelta;
use domain::ids::{HeldId, RegistrationId, UserAccountId};
use domain::webhook::NotificationKind;
use domain::{Digest, Timestamp};
use serde_json::json;

use super::{ENTRY_BYTES_MIN, HeldOutcome, HeldQuotas, NewHeld, Sender, add_total};
use crate::error::{Corrupt, StoreError};
use crate::notice::{Notice, Recipient};
use crate::operation::{During, Operation};
use crate::pool::{QueryBuilder, Tx, query, scalar};
use crate::row::{chunks, parsed_opt};
use crate::{Store, in_transaction};
use async_recursion::async_recursion as boxed;

impl Store {
    /// Holds events; one outcome for each, in the same order. The same bytes of the same sender are one entry as long as it is held, with the
    /// reason and the detail of the newest repetition; its body stays stored or not stored. An event
    /// that exceeds a quota, or whose sender another process has locked, is refused by itself; the others are held. After an error
    /// nothing of a sender is held, or all that fits.
    #[boxed]
    pub async fn held_insert(&self, new: &[NewHeld], quotas: &HeldQuotas) -> Result<Vec<HeldOutcome>, StoreError> {
        if new.is_empty() {
            return Ok(Vec::new());
        }
        let senders: Vec<String> = new.iter().map(|held| held.sender.to_string()).collect();
        let candidates: Vec<Candidate<'_>> =
            senders.iter().zip(new).map(|(sender, held)| (held, (sender.as_str(), held.body_sha256))).collect();
        let holding = async {
            if self.pool.is_postgres() {
                self.hold_shared(&candidates, quotas).await
            } else {
                self.hold_alone(&candidates, quotas).await
            }
        };
        holding.during(Operation::HoldEvents).await
    }

    /// As the only writer of the database.
    async fn hold_alone(
        &self,
        candidates: &[Candidate<'_>],
        quotas: &HeldQuotas,
    ) -> Result<Vec<HeldOutcome>, sqlx::Error> {
        const TOTAL: &str = "SELECT bytes FROM held_totals WHERE id = 1";
        let distinct = distinct_senders(candidates);
        in_transaction!(&self.pool, |tx| {
            let total = scalar(TOTAL).fetch_one(&mut *tx).await?;
            let mut ledger = Ledger::new(quotas, total);
            for chunk in chunks(&distinct) {
                let mut sql = QueryBuilder::new("WITH wanted (sender) AS (");
                sql.push_values(chunk, |mut row, sender| {
                    row.push_bind(*sender);
                });
                sql.push(
                    ") SELECT sender, bytes FROM (SELECT sender, (SELECT h.bytes FROM held_senders h
                        WHERE h.sender = wanted.sender) AS bytes FROM wanted) AS found WHERE bytes IS NOT NULL",
                );
                let rows: Vec<(String, i64)> = sql.build().fetch_all(&mut *tx).await?;
                ledger.senders_have(chunk, &rows);
            }
            for (agent, since) in unclaimed_agents(candidates) {
                let row: Option<AgentRow> =
                    query(AGENT).bind(agent.as_uuid()).bind(since).fetch_optional(&mut *tx).await?;
                ledger.agents.insert(agent, Agent::of(row)?);
            }
            let outcomes = match tx {
                Tx::Sqlite(connection) => sqlite::hold(connection, candidates, &mut ledger)?,
                Tx::Postgres(_) => return Err(sqlx::Error::WorkerCrashed),
            };
            let held = candidates.iter().map(|(held, _)| *held).zip(&outcomes);
            self.notify_of_held(tx, held, &ledger).await?;
            if ledger.total != total {
                add_total(tx, ledger.total - total).await?;
            }
            add_shares(tx, &ledger.added()).await?;
            Ok(outcomes)
        })
        .await
    }
}

impl Store {
    /// Notifies the owners of events that are held now.
    async fn notify_of_held(
        &self,
        tx: &mut Tx<'_>,
        candidates: impl Iterator<Item = (&NewHeld, &HeldOutcome)>,
        ledger: &Ledger<'_>,
    ) -> Result<(), sqlx::Error> {
        if !self.notifies_owners() {
            return Ok(());
        }
        let new = candidates.filter(|(_, outcome)| matches!(outcome, HeldOutcome::Held(_)));
        let notices: Vec<Notice<'_>> = new
            .filter_map(|(held, _)| {
                // The credential names the computer; the envelope may name another one.
                let (to, machine) = match (&held.sender, ledger.account(held)) {
                    (Sender::Machine(machine), _) => (Recipient::OwnerOf(*machine), Some(*machine)),
                    (_, Some(account)) => (Recipient::Account(account.as_str()), None),
                    (_, None) => return None,
                };
                let data = json!({
                    "held_id": held.id,
                    "event_id": held.outline.event_id,
                    "machine_uuid": machine,
                    "reason": held.reason.as_str(),
                });
                Some(Notice::new(NotificationKind::EventHeld, held.id.as_uuid(), to, held.received_at, data))
            })
            .collect();
        self.notify_owners(tx, &notices).await
    }
}

/// Account, bytes of the last day, its oldest entry: id of the agent, beginning of the day.
const AGENT: &str = "SELECT r.account_id, (SELECT CAST(COALESCE(SUM(h.charged_bytes), 0) AS BIGINT)
        FROM held_events h WHERE h.registration_id = r.id AND h.received_at > $2),
        (SELECT MIN(h.received_at) FROM held_events h WHERE h.registration_id = r.id AND h.received_at > $2)
    FROM registrations r WHERE r.id = $1";

/// An event that is to be held, with its key.
type Candidate<'a> = (&'a NewHeld, Key<'a>);

/// The senders, each once, in one order everywhere.
fn distinct_senders<'a>(candidates: &[Candidate<'a>]) -> Vec<&'a str> {
    let mut distinct: Vec<&str> = candidates.iter().map(|(_, (sender, _))| *sender).collect();
    distinct.sort_unstable();
    distinct.dedup();
    distinct
}

/// The agents whose events come without an account, each once, with the beginning of the day of its first event.
fn unclaimed_agents(candidates: &[Candidate<'_>]) -> Vec<(RegistrationId, Timestamp)> {
    let mut agents: Vec<(RegistrationId, Timestamp)> = Vec::new();
    for (held, _) in candidates {
        let (Sender::Registration(agent), None) = (&held.sender, &held.account) else { continue };
        if !agents.iter().any(|(known, _)| known == agent) {
            agents.push((*agent, held.received_at - SHARE_WINDOW));
        }
    }
    agents
}

/// Adds bytes to the parts of senders, in the order given.
async fn add_shares(tx: &mut Tx<'_>, added: &[(&str, i64)]) -> Result<(), sqlx::Error> {
    for chunk in chunks(added) {
        let mut sql = QueryBuilder::new("INSERT INTO held_senders (sender, bytes) ");
        sql.push_values(chunk, |mut row, (sender, bytes)| {
            row.push_bind(*sender).push_bind(*bytes);
        });
        sql.push(" ON CONFLICT (sender) DO UPDATE SET bytes = held_senders.bytes + excluded.bytes");
        sql.build().execute(&mut *tx).await?;
    }
    Ok(())
}

/// Sender and body: what makes two events one entry.
type Key<'a> = (&'a str, Digest);

/// What an entry counts against the quotas.
fn charge(held: &NewHeld) -> i64 {
    clamped(held.body.as_ref().map_or(0, |body| body.len() as u64).max(ENTRY_BYTES_MIN))
}

fn clamped(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The window of [`HeldQuotas::registration_bytes_per_day`].
const SHARE_WINDOW: TimeDelta = TimeDelta::days(1);

/// Suggested delay: when an operator or a resend frees space cannot be predicted.
const ROOM_AFTER: TimeDelta = TimeDelta::minutes(5);

/// Account, bytes of the window, its oldest entry.
type AgentRow = (Option<String>, i64, Option<Timestamp>);

/// An agent whose events come without an account.
struct Agent {
    /// It was claimed a moment ago.
    account: Option<UserAccountId>,
    /// What its entries of the last 24 hours count.
    spent: i64,
    /// When the oldest of them came.
    since: Option<Timestamp>,
}

impl Agent {
    fn of(row: Option<AgentRow>) -> Result<Self, Corrupt> {
        let (account, spent, since) = row.unwrap_or_default();
        Ok(Self { account: parsed_opt("registrations.account_id", account.as_deref())?, spent, since })
    }
}

/// The held events of the senders of a batch, and the remaining quotas.
struct Ledger<'a> {
    held: HashMap<Key<'a>, HeldId>,
    senders: HashMap<&'a str, Share>,
    agents: HashMap<RegistrationId, Agent>,
    registration_bytes_max: i64,
    total_bytes_max: i64,
    sender_bytes_max: i64,
    total: i64,
}

/// What one sender has of all that is held.
#[derive(Default)]
struct Share {
    before: i64,
    added: i64,
}

impl<'a> Ledger<'a> {
    fn new(quotas: &HeldQuotas, total: i64) -> Self {
        Self {
            held: HashMap::new(),
            senders: HashMap::new(),
            agents: HashMap::new(),
            registration_bytes_max: clamped(quotas.registration_bytes_per_day),
            total_bytes_max: clamped(quotas.total_bytes),
            sender_bytes_max: clamped(quotas.sender_bytes()),
            total,
        }
    }

    /// Records the held bytes of senders before the batch; `rows` contains the senders that have any.
    fn senders_have(&mut self, senders: &[&'a str], rows: &[(String, i64)]) {
        for (sender, bytes) in rows {
            if let Some(&known) = senders.iter().find(|known| **known == sender.as_str()) {
                self.senders.insert(known, Share { before: *bytes, added: 0 });
            }
        }
    }

    /// The bytes that the batch adds to each sender, in one order everywhere.
    fn added(&self) -> Vec<(&'a str, i64)> {
        let shares = self.senders.iter().filter(|(_, share)| share.added > 0);
        let mut added: Vec<(&'a str, i64)> = shares.map(|(sender, share)| (*sender, share.added)).collect();
        added.sort_unstable();
        added
    }

    fn account<'b>(&'b self, held: &'b NewHeld) -> Option<&'b UserAccountId> {
        match &held.sender {
            Sender::Machine(_) => None,
            Sender::Account(account) => Some(account),
            Sender::Registration(agent) => held.account.as_ref().or_else(|| self.agents.get(agent)?.account.as_ref()),
        }
    }

    /// The entry that holds it already, or the quota that it exceeds; `None` if it may be taken.
    fn refusal(&self, held: &NewHeld, key: &Key<'a>) -> Option<HeldOutcome> {
        if let Some(id) = self.held.get(key) {
            return Some(HeldOutcome::AlreadyHeld(*id));
        }
        let charge = charge(held);
        let share = self.senders.get(key.0).map_or(0, |share| share.before + share.added);
        if self.total.saturating_add(charge) > self.total_bytes_max
            || share.saturating_add(charge) > self.sender_bytes_max
        {
            return Some(HeldOutcome::QuotaExceeded { retry_after: ROOM_AFTER });
        }
        let agent = self.unclaimed(held)?;
        let since = agent.since.unwrap_or(held.received_at);
        (agent.spent.saturating_add(charge) > self.registration_bytes_max)
            .then(|| HeldOutcome::QuotaExceeded { retry_after: since + SHARE_WINDOW - held.received_at })
    }

    /// The unclaimed agent that sent it.
    fn unclaimed(&self, held: &NewHeld) -> Option<&Agent> {
        match (&held.sender, &held.account) {
            (Sender::Registration(agent), None) => self.agents.get(agent).filter(|agent| agent.account.is_none()),
            _ => None,
        }
    }

    /// Counts an event that is held now.
    fn take(&mut self, held: &NewHeld, key: Key<'a>) -> HeldOutcome {
        let charge = charge(held);
        if let (Sender::Registration(agent), None) = (&held.sender, &held.account)
            && let Some(agent) = self.agents.get_mut(agent)
            && agent.account.is_none()
        {
            agent.spent += charge;
        }
        self.total += charge;
        self.senders.entry(key.0).or_default().added += charge;
        self.held.insert(key, held.id);
        HeldOutcome::Held(held.id)
    }
}
