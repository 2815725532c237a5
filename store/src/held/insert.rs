//! Holding many events in one transaction.
//!
//! 1. Lock the totals: from here on nobody else changes what is held, and no claim is completed.
//! 2. Look which of the bodies are held already.
//! 3. Look what the quotas leave to each unclaimed agent, and whether it is still unclaimed.
//! 4. Admit, in the order given, what fits.
//! 5. Insert it in multi-row statements and add it to the totals.

use std::collections::HashMap;

use chrono::TimeDelta;
use domain::ids::{HeldId, RegistrationId, UserAccountId};
use domain::{Digest, Timestamp};
use sqlx::QueryBuilder;
use uuid::Uuid;

use super::{ENTRY_BYTES_MIN, HeldOutcome, HeldQuotas, NewHeld, Sender, TOTALS_ADD, TOTALS_LOCK};
use crate::error::{Corrupt, During, StoreError};
use crate::row::{chunks, parsed_opt, storable};
use crate::{Store, in_transaction};

impl Store {
    /// Holds events, all in one transaction; one outcome for each, in the same order. The same bytes of the same sender are
    /// one entry as long as it is held. What exceeds a quota is refused by itself, the others are held.
    pub async fn held_insert(&self, new: &[NewHeld], quotas: &HeldQuotas) -> Result<Vec<HeldOutcome>, StoreError> {
        const AGENT: &str = "SELECT r.account_id, (SELECT CAST(COALESCE(SUM(h.charged_bytes), 0) AS BIGINT)
                FROM held_events h WHERE h.registration_id = r.id AND h.received_at > $2),
                (SELECT MIN(h.received_at) FROM held_events h WHERE h.registration_id = r.id AND h.received_at > $2)
            FROM registrations r WHERE r.id = $1";
        if new.is_empty() {
            return Ok(Vec::new());
        }
        let senders: Vec<String> = new.iter().map(|held| held.sender.to_string()).collect();
        let keys: Vec<Key<'_>> =
            senders.iter().zip(new).map(|(sender, held)| (sender.as_str(), held.body_sha256)).collect();
        in_transaction!(&self.pool, |tx: Db| {
            let total: i64 = sqlx::query_scalar(TOTALS_LOCK).fetch_one(&mut *tx).await?;
            let mut ledger = Ledger::new(quotas, total);

            look_up!(tx, Db, ledger, new, keys);
            for held in new {
                let (Sender::Registration(agent), None) = (&held.sender, &held.account) else { continue };
                if ledger.agents.contains_key(agent) {
                    continue;
                }
                let since = held.received_at - SHARE_WINDOW;
                let row: Option<AgentRow> =
                    sqlx::query_as(AGENT).bind(agent.as_uuid()).bind(since).fetch_optional(&mut *tx).await?;
                ledger.agents.insert(*agent, Agent::of(row)?);
            }

            let outcomes: Vec<HeldOutcome> =
                new.iter().zip(&keys).map(|(held, key)| ledger.admit(held, *key)).collect();
            let admitted: Vec<(&NewHeld, &str)> = new
                .iter()
                .zip(&senders)
                .zip(&outcomes)
                .filter(|(_, outcome)| matches!(outcome, HeldOutcome::Held(_)))
                .map(|((held, sender), _)| (held, sender.as_str()))
                .collect();
            insert!(tx, Db, ledger, admitted);
            if !admitted.is_empty() {
                let added: i64 = admitted.iter().map(|(held, _)| charge(held)).sum();
                sqlx::query(TOTALS_ADD).bind(added).execute(&mut *tx).await?;
            }
            Ok(outcomes)
        })
        .during("hold events")
    }
}

/// Step 2. One probe of an index for each body, and so says even a plan that PostgreSQL made when the table was empty.
macro_rules! look_up {
    ($tx:ident, $Db:ty, $ledger:ident, $new:ident, $keys:ident) => {
        let (mut named, mut unnamed) = (Vec::new(), Vec::new());
        for (place, (held, (sender, digest))) in (0_i64..).zip($new.iter().zip(&$keys)) {
            match held.outline.event_id {
                Some(event) => named.push((place, event.as_uuid(), *sender, *digest)),
                None => unnamed.push((place, *sender, *digest)),
            }
        }
        for chunk in chunks(&named) {
            let mut sql = QueryBuilder::<$Db>::new("WITH wanted (place, event_id, sender, body_sha256) AS (");
            sql.push_values(chunk, |mut row, (place, event, sender, digest)| {
                row.push_bind(*place).push_bind(*event).push_bind(*sender).push_bind(&digest.as_bytes()[..]);
            });
            sql.push(
                ") SELECT place, id FROM (SELECT place, (SELECT h.id FROM held_events h
                    WHERE h.event_id = wanted.event_id AND h.sender = wanted.sender
                        AND h.body_sha256 = wanted.body_sha256 AND h.state = 'held') AS id
                FROM wanted) AS found WHERE id IS NOT NULL",
            );
            $ledger.are_held(&$keys, sql.build_query_as().fetch_all(&mut *$tx).await?);
        }
        for chunk in chunks(&unnamed) {
            let mut sql = QueryBuilder::<$Db>::new("WITH wanted (place, sender, body_sha256) AS (");
            sql.push_values(chunk, |mut row, (place, sender, digest)| {
                row.push_bind(*place).push_bind(*sender).push_bind(&digest.as_bytes()[..]);
            });
            sql.push(
                ") SELECT place, id FROM (SELECT place, (SELECT h.id FROM held_events h
                    WHERE h.event_id IS NULL AND h.sender = wanted.sender
                        AND h.body_sha256 = wanted.body_sha256 AND h.state = 'held') AS id
                FROM wanted) AS found WHERE id IS NOT NULL",
            );
            $ledger.are_held(&$keys, sql.build_query_as().fetch_all(&mut *$tx).await?);
        }
    };
}
use look_up;

/// Step 5.
macro_rules! insert {
    ($tx:ident, $Db:ty, $ledger:ident, $admitted:ident) => {
        for chunk in chunks(&$admitted) {
            let mut sql = QueryBuilder::<$Db>::new(
                "INSERT INTO held_events (id, sender, registration_id, machine_uuid, account_id, user_cuid, event_id,
                    event_type, agent_id, event_machine_uuid, reason, detail, body, body_sha256, body_bytes,
                    charged_bytes, seal, received_at, state) ",
            );
            sql.push_values(chunk, |mut row, (held, sender)| {
                let (registration, machine) = match &held.sender {
                    Sender::Registration(id) => (Some(id.as_uuid()), None),
                    Sender::Machine(id) => (None, Some(id.as_uuid())),
                    Sender::Account(_) => (None, None),
                };
                let outline = &held.outline;
                row.push_bind(held.id.as_uuid())
                    .push_bind(*sender)
                    .push_bind(registration)
                    .push_bind(machine)
                    .push_bind($ledger.account(held).map(UserAccountId::as_str))
                    .push_bind(held.user_cuid.as_ref().map(domain::ids::UserCuid::as_str))
                    .push_bind(outline.event_id.map(|id| id.as_uuid()))
                    .push_bind(outline.event_type.as_deref().map(storable))
                    .push_bind(outline.agent_id.as_deref().map(storable))
                    .push_bind(outline.machine_uuid.map(|id| id.as_uuid()))
                    .push_bind(held.reason.as_str())
                    .push_bind(storable(&held.detail))
                    .push_bind(held.body.as_deref())
                    .push_bind(&held.body_sha256.as_bytes()[..])
                    .push_bind(clamped(held.body_bytes))
                    .push_bind(charge(held))
                    .push_bind(held.seal.as_ref().map(|seal| &seal.as_bytes()[..]))
                    .push_bind(held.received_at)
                    .push_bind("held");
            });
            sql.build().execute(&mut *$tx).await?;
        }
    };
}
use insert;

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

/// Nobody knows when an operator makes room, or a resend does.
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

/// What is held, and how much room is left.
struct Ledger<'a> {
    held: HashMap<Key<'a>, HeldId>,
    agents: HashMap<RegistrationId, Agent>,
    registration_bytes_max: i64,
    total_bytes_max: i64,
    total: i64,
}

impl<'a> Ledger<'a> {
    fn new(quotas: &HeldQuotas, total: i64) -> Self {
        Self {
            held: HashMap::new(),
            agents: HashMap::new(),
            registration_bytes_max: clamped(quotas.registration_bytes_per_day),
            total_bytes_max: clamped(quotas.total_bytes),
            total,
        }
    }

    /// Takes down which bodies are held already: place in the batch, entry.
    fn are_held(&mut self, keys: &[Key<'a>], rows: Vec<(i64, Uuid)>) {
        for (place, id) in rows {
            if let Some(key) = usize::try_from(place).ok().and_then(|place| keys.get(place)) {
                self.held.insert(*key, id.into());
            }
        }
    }

    fn account<'b>(&'b self, held: &'b NewHeld) -> Option<&'b UserAccountId> {
        match &held.sender {
            Sender::Machine(_) => None,
            Sender::Account(account) => Some(account),
            Sender::Registration(agent) => held.account.as_ref().or_else(|| self.agents.get(agent)?.account.as_ref()),
        }
    }

    fn admit(&mut self, held: &NewHeld, key: Key<'a>) -> HeldOutcome {
        if let Some(id) = self.held.get(&key) {
            return HeldOutcome::AlreadyHeld(*id);
        }
        let charge = charge(held);
        if self.total.saturating_add(charge) > self.total_bytes_max {
            return HeldOutcome::QuotaExceeded { retry_after: ROOM_AFTER };
        }
        if let (Sender::Registration(agent), None) = (&held.sender, &held.account)
            && let Some(agent) = self.agents.get_mut(agent)
            && agent.account.is_none()
        {
            if agent.spent.saturating_add(charge) > self.registration_bytes_max {
                let since = agent.since.unwrap_or(held.received_at);
                return HeldOutcome::QuotaExceeded { retry_after: since + SHARE_WINDOW - held.received_at };
            }
            agent.spent += charge;
        }
        self.total += charge;
        self.held.insert(key, held.id);
        HeldOutcome::Held(held.id)
    }
}
