//! Holding on PostgreSQL, beside other processes, whose transactions may last: a process may be frozen within one.
//!
//! 1. All events that are new are held in one transaction. It skips senders, and unclaimed agents, that another transaction has locked.
//! 2. The events of each skipped sender are held in a transaction of their own, which waits for the lock, for half a second at most, and
//!    for a second all of them together. The outcome of events that are still locked then is [`HeldOutcome::Busy`].
//!
//! A lock of the sender makes its quota exact between processes. The sum of all senders is read without a lock, so processes that hold at the
//! same moment may exceed it by their groups. It is added to any row of `held_totals` that nothing else has locked.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use domain::ids::RegistrationId;

use super::{AGENT, Agent, AgentRow, Candidate, Ledger, add_shares, distinct_senders, postgres, unclaimed_agents};
use crate::held::{HeldOutcome, HeldQuotas, add_total, is_lock_timeout};
use crate::pool::{Tx, query};
use crate::{Store, in_transaction, joined};

/// Time for the senders that another transaction has locked.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// How a transaction treats the locks of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Locks {
    /// It leaves out locked rows.
    Skip,
    /// It waits.
    Wait,
}

/// Locked senders with their bytes, and the sum of all senders.
struct LockedSenders {
    bytes: HashMap<String, i64>,
    /// Those that had no row.
    begun: Vec<String>,
    total: i64,
}

/// `(sender, bytes, known, total)`: bytes of a locked row, whether there is a row, bytes of all senders.
type SenderRow = (String, Option<i64>, Option<bool>, Option<i64>);

/// Senders, as [`SenderRow`]. Parameters: JSON array of senders, the longest wait for a lock.
const SKIP: &str = joined!(SENDERS[0], " SKIP LOCKED", SENDERS[1]);
const WAIT: &str = joined!(SENDERS[0], "", SENDERS[1]);
const SENDERS: [&str; 2] = [
    "SELECT w.sender, s.bytes, (SELECT TRUE FROM held_senders k WHERE k.sender = w.sender) AS known,
        (SELECT CAST(SUM(t.bytes) AS BIGINT) FROM held_totals t) AS total
    FROM (SELECT set_config('lock_timeout', $2, TRUE) OFFSET 0) AS c
    CROSS JOIN jsonb_array_elements_text($1::JSONB) AS w (sender)
    LEFT JOIN LATERAL (SELECT h.bytes FROM held_senders h WHERE h.sender = w.sender FOR UPDATE",
    ") s ON TRUE",
];

impl Locks {
    fn senders(self) -> &'static str {
        match self {
            Self::Skip => SKIP,
            Self::Wait => WAIT,
        }
    }

    /// A claim that is being completed has the agent locked: events held before are then seen by it, and those held later see it.
    fn agent(self) -> &'static str {
        const SKIP: &str = joined!(AGENT, " FOR SHARE OF r SKIP LOCKED");
        const WAIT: &str = joined!(AGENT, " FOR SHARE OF r");
        match self {
            Self::Skip => SKIP,
            Self::Wait => WAIT,
        }
    }

    fn tries_max(self) -> u32 {
        match self {
            Self::Skip => 1,
            Self::Wait => 3,
        }
    }

    fn timeout(self) -> &'static str {
        match self {
            Self::Skip => "250ms",
            Self::Wait => "500ms",
        }
    }
}

impl Store {
    pub(super) async fn hold_shared(
        &self,
        candidates: &[Candidate<'_>],
        quotas: &HeldQuotas,
    ) -> Result<Vec<HeldOutcome>, sqlx::Error> {
        let mut outcomes = match self.hold_once(candidates, quotas, Locks::Skip).await {
            Ok(outcomes) => outcomes,
            // Another transaction begins one of the senders.
            Err(error) if is_lock_timeout(&error) => vec![None; candidates.len()],
            Err(error) => return Err(error),
        };
        let begun = Instant::now();
        for sender in distinct_senders(candidates) {
            let places: Vec<usize> = candidates
                .iter()
                .zip(&outcomes)
                .enumerate()
                .filter(|(_, ((_, (of, _)), outcome))| *of == sender && outcome.is_none())
                .map(|(place, _)| place)
                .collect();
            if places.is_empty() || begun.elapsed() > WAIT_MAX {
                continue;
            }
            let own: Vec<Candidate<'_>> = places.iter().filter_map(|place| candidates.get(*place)).copied().collect();
            let held = match self.hold_once(&own, quotas, Locks::Wait).await {
                Ok(held) => held,
                Err(error) if is_lock_timeout(&error) => continue,
                Err(error) => return Err(error),
            };
            for (place, outcome) in places.into_iter().zip(held) {
                if let Some(slot) = outcomes.get_mut(place) {
                    *slot = outcome;
                }
            }
        }
        Ok(outcomes.into_iter().map(|outcome| outcome.unwrap_or(HeldOutcome::Busy)).collect())
    }

    /// One transaction; no outcome for events that were left out.
    async fn hold_once(
        &self,
        candidates: &[Candidate<'_>],
        quotas: &HeldQuotas,
        locks: Locks,
    ) -> Result<Vec<Option<HeldOutcome>>, sqlx::Error> {
        let distinct = distinct_senders(candidates);
        in_transaction!(
            &self.pool,
            |tx| {
                let locked = lock_senders(tx, &distinct, locks).await?;
                let mut ledger = Ledger::new(quotas, locked.total);
                let rows: Vec<(String, i64)> = locked.bytes.iter().map(|(sender, bytes)| (sender.clone(), *bytes)).collect();
                ledger.senders_have(&distinct, &rows);
                let mut busy: HashSet<RegistrationId> = HashSet::new();
                for (agent, since) in unclaimed_agents(candidates) {
                    let row: Option<AgentRow> =
                        query(locks.agent()).bind(agent.as_uuid()).bind(since).fetch_optional(&mut *tx).await?;
                    if row.is_none() && locks == Locks::Skip {
                        busy.insert(agent);
                    }
                    ledger.agents.insert(agent, Agent::of(row)?);
                }
                let is_free = |(held, (sender, _)): &Candidate<'_>| {
                    let agent = held.sender.registration().filter(|_| held.account.is_none());
                    locked.bytes.contains_key(*sender) && agent.is_none_or(|agent| !busy.contains(&agent))
                };
                let free: Vec<Candidate<'_>> = candidates.iter().filter(|held| is_free(held)).copied().collect();
                let held = postgres::hold(tx, &free, &mut ledger).await?;
                self.notify_of_held(tx, free.iter().map(|(held, _)| *held).zip(&held), &ledger).await?;
                let mut held = held.into_iter();
                let added = ledger.added();
                add_shares(tx, &added).await?;
                let empty: Vec<&String> = locked
                    .begun
                    .iter()
                    .filter(|begun| !added.iter().any(|(sender, _)| sender == begun))
                    .collect();
                if !empty.is_empty() {
                    end_senders(tx, &empty).await?;
                }
                // Last, so that the row is locked for one round trip.
                if ledger.total != locked.total {
                    add_total(tx, ledger.total - locked.total).await?;
                }
                let outcome = |candidate| if is_free(candidate) { held.next() } else { None };
                Ok(candidates.iter().map(outcome).collect::<Vec<_>>())
            },
            commit if |outcomes: &Vec<Option<HeldOutcome>>| outcomes
                .iter()
                .any(|outcome| matches!(outcome, Some(HeldOutcome::Held(_) | HeldOutcome::AlreadyHeld(_))))
        )
        .await
    }
}

/// Locks senders, and begins those without a row; the others are locked by another transaction.
async fn lock_senders(tx: &mut Tx<'_>, senders: &[&str], locks: Locks) -> Result<LockedSenders, sqlx::Error> {
    const BEGIN: &str = "INSERT INTO held_senders (sender, bytes)
        SELECT w.sender, 0 FROM jsonb_array_elements_text($1::JSONB) AS w (sender) ORDER BY 1
        ON CONFLICT DO NOTHING RETURNING sender";
    let all = serde_json::to_string(senders).unwrap_or_default();
    let mut locked = LockedSenders { bytes: HashMap::new(), begun: Vec::new(), total: 0 };
    // While this transaction waited, another may have begun a sender, or removed its row.
    for _ in 0..locks.tries_max() {
        let rows: Vec<SenderRow> = query(locks.senders()).bind(&all).bind(locks.timeout()).fetch_all(&mut *tx).await?;
        let mut missing: Vec<String> = Vec::new();
        for (sender, bytes, known, total) in rows {
            locked.total = total.unwrap_or_default();
            match (bytes, known) {
                (Some(bytes), _) => drop(locked.bytes.insert(sender, bytes)),
                (None, None) => missing.push(sender),
                (None, Some(_)) => {}
            }
        }
        if !missing.is_empty() {
            let missing = serde_json::to_string(&missing).unwrap_or_default();
            let begun: Vec<(String,)> = query(BEGIN).bind(&missing).fetch_all(&mut *tx).await?;
            locked.bytes.extend(begun.iter().map(|(sender,)| (sender.clone(), 0)));
            locked.begun.extend(begun.into_iter().map(|(sender,)| sender));
        }
        if locked.bytes.len() == senders.len() {
            break;
        }
    }
    Ok(locked)
}

/// Removes the rows of senders that have nothing after all.
async fn end_senders(tx: &mut Tx<'_>, senders: &[&String]) -> Result<(), sqlx::Error> {
    const END: &str = "DELETE FROM held_senders
        WHERE sender IN (SELECT jsonb_array_elements_text($1::JSONB)) AND bytes <= 0";
    let senders = serde_json::to_string(senders).unwrap_or_default();
    query(END).bind(&senders).execute(tx).await.map(drop)
}
