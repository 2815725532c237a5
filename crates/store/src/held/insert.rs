//! Holding events, by the same statements on both databases.
//!
//! The events of a group are held in one transaction:
//!
//! 1. Lock the rows of their senders and read their bytes: until the commit no other transaction changes held events of these senders.
//! 2. Read the rest of the quotas: the sum of all senders, and of an unclaimed agent its last day, and whether it is still unclaimed.
//! 3. Find the events that are held already. Admit the others in the order given, as far as the quotas permit, and insert them. An entry
//!    takes over the reason of a repetition, which was judged by newer facts.
//! 4. Add the inserted bytes to the sums of the senders and to the total.
//!
//! On PostgreSQL another process may have locked a sender, and may be frozen within its transaction. If the group waits longer than
//! [`LOCK_WAIT_MAX`], the events of each sender are held in a separate transaction. Only events of locked senders wait again, for
//! [`ALL_WAITS_MAX`] in total; then their outcome is [`HeldOutcome::Busy`].
//!
//! The sum of all senders is read without a lock, so processes that hold at the same moment may exceed it by their groups.

mod statements;

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use chrono::TimeDelta;
use domain::ids::{HeldId, RegistrationId, UserAccountId};
use domain::webhook::NotificationKind;
use domain::{Digest, Timestamp};
use serde_json::json;

use self::statements::{add_to_senders, entries_of, insert, judge_again};
use super::{ENTRY_BYTES_MIN, HeldOutcome, HeldQuotas, NewHeld, Sender, add_total, end_sender, is_lock_timeout};
use crate::error::StoreError;
use crate::notice::{Notice, Recipient};
use crate::operation::{During, Operation};
use crate::pool::{Tx, query};
use crate::row::parsed_opt;
use crate::{Store, in_transaction, joined};

/// Longest wait for one lock of another transaction.
const LOCK_WAIT_MAX: Duration = Duration::from_millis(250);

/// Time after which a transaction waits for no lock of another one.
const ALL_WAITS_MAX: Duration = Duration::from_secs(1);

/// Suggested delay: when an operator or a resend frees space cannot be predicted.
const ROOM_AFTER: TimeDelta = TimeDelta::minutes(5);

/// The window of [`HeldQuotas::registration_bytes_per_day`].
const SHARE_WINDOW: TimeDelta = TimeDelta::days(1);

impl Store {
    /// Holds events; one outcome for each, in the same order. The same bytes of the same sender are one entry as long as it is held, with the
    /// reason and the detail of the newest repetition; its body stays stored or not stored. An event
    /// that exceeds a quota, or that belongs to a sender locked by another process, is refused by itself; the others are held. After an error
    /// nothing of a sender is held, or all that fits.
    #[boxed]
    pub async fn held_insert(&self, new: &[NewHeld], quotas: &HeldQuotas) -> Result<Vec<HeldOutcome>, StoreError> {
        let senders: Vec<String> = new.iter().map(|held| held.sender.to_string()).collect();
        let candidates: Vec<Candidate<'_>> =
            senders.iter().zip(new).map(|(sender, held)| (held, (sender.as_str(), held.body_sha256))).collect();
        let holding = async {
            if candidates.is_empty() {
                return Ok(Vec::new());
            }
            let begun = Instant::now();
            match self.hold(&candidates, quotas, LOCK_WAIT_MAX).await {
                Err(error) if is_lock_timeout(&error) => self.hold_each_sender(&candidates, quotas, begun).await,
                held => held,
            }
        };
        holding.during(Operation::HoldEvents).await
    }

    /// Holds the events of each sender in a separate transaction.
    async fn hold_each_sender(
        &self,
        candidates: &[Candidate<'_>],
        quotas: &HeldQuotas,
        begun: Instant,
    ) -> Result<Vec<HeldOutcome>, sqlx::Error> {
        let mut outcomes = vec![HeldOutcome::Busy; candidates.len()];
        let mut senders: BTreeMap<&str, (Vec<&mut HeldOutcome>, Vec<Candidate<'_>>)> = BTreeMap::new();
        for (candidate, outcome) in candidates.iter().zip(&mut outcomes) {
            let (own_outcomes, own) = senders.entry(candidate.1.0).or_default();
            own_outcomes.push(outcome);
            own.push(*candidate);
        }
        for (own_outcomes, own) in senders.into_values() {
            let wait = LOCK_WAIT_MAX.min(ALL_WAITS_MAX.saturating_sub(begun.elapsed()));
            match self.hold(&own, quotas, wait).await {
                Ok(held) => own_outcomes.into_iter().zip(held).for_each(|(outcome, held)| *outcome = held),
                Err(error) if is_lock_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(outcomes)
    }

    /// Holds events in one transaction, which waits that long for a lock at most.
    async fn hold(
        &self,
        candidates: &[Candidate<'_>],
        quotas: &HeldQuotas,
        lock_wait: Duration,
    ) -> Result<Vec<HeldOutcome>, sqlx::Error> {
        in_transaction!(
            &self.pool,
            |tx| {
                if tx.is_postgres() {
                    // 0 would mean no limit.
                    let limit = format!("{}ms", lock_wait.as_millis().max(1));
                    query("SELECT set_config('lock_timeout', $1, TRUE)").bind(&limit).execute(&mut *tx).await?;
                }
                let mut ledger = Ledger::read(tx, candidates, quotas).await?;
                let outcomes: Vec<HeldOutcome> =
                    candidates.iter().map(|(held, key)| ledger.admit(held, *key)).collect();
                insert(tx, candidates, &outcomes, &ledger).await?;
                judge_again(tx, candidates, &outcomes).await?;
                self.notify_of_held(tx, candidates, &outcomes, &ledger).await?;
                ledger.write(tx).await?;
                Ok(outcomes)
            },
            commit if |outcomes: &Vec<HeldOutcome>| outcomes
                .iter()
                .any(|outcome| matches!(outcome, HeldOutcome::Held(_) | HeldOutcome::AlreadyHeld(_)))
        )
        .await
    }

    /// Notifies the owners of events that are held now.
    async fn notify_of_held(
        &self,
        tx: &mut Tx<'_>,
        candidates: &[Candidate<'_>],
        outcomes: &[HeldOutcome],
        ledger: &Ledger<'_>,
    ) -> Result<(), sqlx::Error> {
        if !self.notifies_owners() {
            return Ok(());
        }
        let notices: Vec<Notice<'_>> = inserted(candidates, outcomes)
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

/// An event that is to be held, with its key.
type Candidate<'a> = (&'a NewHeld, Key<'a>);

/// Sender and body: what makes two events one entry.
type Key<'a> = (&'a str, Digest);

/// The events that the transaction inserts, with their senders.
fn inserted<'a>(
    candidates: &[Candidate<'a>],
    outcomes: &[HeldOutcome],
) -> impl Iterator<Item = (&'a NewHeld, &'a str)> {
    let held = candidates.iter().zip(outcomes).filter(|(_, outcome)| matches!(outcome, HeldOutcome::Held(_)));
    held.map(|((held, (sender, _)), _)| (*held, *sender))
}

/// What an entry counts against the quotas.
fn charge(held: &NewHeld) -> i64 {
    clamped(held.body.as_ref().map_or(0, |body| body.len() as u64).max(ENTRY_BYTES_MIN))
}

fn clamped(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// An agent that sends events without an account.
struct Agent {
    /// It was claimed a moment ago.
    account: Option<UserAccountId>,
    /// What its entries of the last 24 hours count.
    spent: i64,
    /// Time when the oldest was received.
    since: Option<Timestamp>,
}

impl Agent {
    /// Reads an agent. On PostgreSQL it waits for a claim that is being completed: events held before are then seen by the claim, and
    /// those held later see it.
    async fn read(tx: &mut Tx<'_>, agent: RegistrationId, day: Timestamp) -> Result<Self, sqlx::Error> {
        const SQLITE: &str = "SELECT r.account_id, (SELECT CAST(COALESCE(SUM(h.charged_bytes), 0) AS BIGINT)
                FROM held_events h WHERE h.registration_id = r.id AND h.received_at > $2),
                (SELECT MIN(h.received_at) FROM held_events h WHERE h.registration_id = r.id AND h.received_at > $2)
            FROM registrations r WHERE r.id = $1";
        const POSTGRES: &str = joined!(SQLITE, " FOR SHARE OF r");
        let sql = if tx.is_postgres() { POSTGRES } else { SQLITE };
        let row: Option<(Option<String>, i64, Option<Timestamp>)> =
            query(sql).bind(agent.as_uuid()).bind(day).fetch_optional(tx).await?;
        let (account, spent, since) = row.unwrap_or_default();
        Ok(Self { account: parsed_opt("registrations.account_id", account.as_deref())?, spent, since })
    }
}

/// The held events of the senders of a batch, and the remaining quotas.
struct Ledger<'a> {
    entries: HashMap<Key<'a>, HeldId>,
    senders: BTreeMap<&'a str, Share>,
    agents: HashMap<RegistrationId, Agent>,
    quotas: &'a HeldQuotas,
    /// Bytes of all senders.
    total: i64,
}

/// What one sender has of all that is held.
#[derive(Default)]
struct Share {
    before: i64,
    added: i64,
}

impl<'a> Ledger<'a> {
    /// Locks the senders, in one order everywhere, and reads what they have.
    async fn read(tx: &mut Tx<'_>, candidates: &[Candidate<'a>], quotas: &'a HeldQuotas) -> Result<Self, sqlx::Error> {
        let mut senders: BTreeMap<&'a str, Share> =
            candidates.iter().map(|(_, (sender, _))| (*sender, Share::default())).collect();
        let nothing: Vec<(&str, i64)> = senders.keys().map(|sender| (*sender, 0)).collect();
        let mut total = 0;
        for (sender, bytes, sum) in add_to_senders(tx, &nothing).await? {
            total = sum;
            if let Some(share) = senders.get_mut(sender.as_str()) {
                share.before = bytes;
            }
        }
        let mut agents = HashMap::new();
        for (held, _) in candidates {
            if let (Sender::Registration(agent), None) = (&held.sender, &held.account)
                && !agents.contains_key(agent)
            {
                agents.insert(*agent, Agent::read(tx, *agent, held.received_at - SHARE_WINDOW).await?);
            }
        }
        Ok(Self { entries: entries_of(tx, candidates).await?, senders, agents, quotas, total })
    }

    /// Adds what was admitted. The sum of all comes last, so that its row is locked for one round trip.
    async fn write(&self, tx: &mut Tx<'_>) -> Result<(), sqlx::Error> {
        let added: Vec<(&str, i64)> = self
            .senders
            .iter()
            .filter(|(_, share)| share.added > 0)
            .map(|(sender, share)| (*sender, share.added))
            .collect();
        for (sender, _) in self.senders.iter().filter(|(_, share)| share.before + share.added == 0) {
            end_sender(tx, sender).await?;
        }
        if added.is_empty() {
            return Ok(());
        }
        add_to_senders(tx, &added).await?;
        add_total(tx, added.iter().map(|(_, bytes)| bytes).sum()).await
    }

    fn account<'b>(&'b self, held: &'b NewHeld) -> Option<&'b UserAccountId> {
        match &held.sender {
            Sender::Machine(_) => None,
            Sender::Account(account) => Some(account),
            Sender::Registration(agent) => held.account.as_ref().or_else(|| self.agents.get(agent)?.account.as_ref()),
        }
    }

    /// Counts an event that may be held.
    fn admit(&mut self, held: &NewHeld, key: Key<'a>) -> HeldOutcome {
        self.refusal(held, &key).unwrap_or_else(|| self.take(held, key))
    }

    /// The entry that holds it already, or the quota that it exceeds; `None` if it may be taken.
    fn refusal(&self, held: &NewHeld, key: &Key<'a>) -> Option<HeldOutcome> {
        if let Some(id) = self.entries.get(key) {
            return Some(HeldOutcome::AlreadyHeld(*id));
        }
        let charge = charge(held);
        let share = self.senders.get(key.0).map_or(0, |share| share.before + share.added);
        if self.total.saturating_add(charge) > clamped(self.quotas.total_bytes)
            || share.saturating_add(charge) > clamped(self.quotas.sender_bytes())
        {
            return Some(HeldOutcome::QuotaExceeded { retry_after: ROOM_AFTER });
        }
        let agent = self.unclaimed(held)?;
        let since = agent.since.unwrap_or(held.received_at);
        (agent.spent.saturating_add(charge) > clamped(self.quotas.registration_bytes_per_day))
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
        self.entries.insert(key, held.id);
        HeldOutcome::Held(held.id)
    }
}
