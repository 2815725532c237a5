//! Appending without a wait for other processes.
//!
//! 1. The events of a chain are judged against its cached head. If an event is refused or no head is cached, one statement reads the heads
//!    and event ids of all such chains, and the events are judged again.
//! 2. One statement, in its own transaction, stores the additions of all chains. It compares the stored head of each chain with the judged
//!    one, and skips a head that another transaction has locked; so the cache may be wrong, and the statement does not wait.
//! 3. A chain is settled when its additions are stored, or when it has no additions and its head was read. Other chains are tried again:
//!    immediately if another process moved them, after a pause if another process has locked them.
//!
//! There is no transaction over several statements, so a process that is frozen has no lock.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use domain::ids::EventId;

use super::judge::{ChainPart, KnownEvents, Unsettled, judge};
use super::read::SourceNumbers;
use super::write::Plan;
use crate::log::error::LogError;
use crate::log::handle::Log;
use crate::log::job::{Append, AppendOutcome};

/// Maximum number of attempts without a pause.
const ROUNDS_MAX: u32 = 4;

/// Pauses before further attempts. The statement of another process, with its commit, takes some milliseconds.
pub(super) const PAUSES: [Duration; 5] = [
    Duration::from_millis(10),
    Duration::from_millis(30),
    Duration::from_millis(90),
    Duration::from_millis(270),
    Duration::from_millis(300),
];

/// Maximum total time of statements with one chain, each of which waits at most 250 ms.
const ALONE_MAX: TimeDelta = TimeDelta::seconds(1);

/// The outcomes of events, with their places in the group. An error affects only its event.
pub(super) type Outcomes = Vec<(usize, Result<AppendOutcome, Arc<LogError>>)>;

/// How a failed statement affects its chains.
enum Failure {
    /// Another process added the same rows at the same moment.
    Raced,
    /// One of the chains waited for another process.
    Waited,
    /// The database rejects the values of one of the chains.
    Rejected,
    /// All chains failed.
    Whole,
}

impl Failure {
    /// <https://www.postgresql.org/docs/current/errcodes-appendix.html>
    fn of(error: &LogError) -> Self {
        let LogError::Sql { source: sqlx::Error::Database(error), .. } = error else { return Self::Whole };
        match error.code().as_deref().unwrap_or_default() {
            // Unique violation, serialisation failure, deadlock.
            "23505" | "40001" | "40P01" => Self::Raced,
            // `lock_timeout`.
            "55P03" => Self::Waited,
            // Data exceptions, program limits.
            code if code.starts_with("22") || code.starts_with("54") => Self::Rejected,
            _ => Self::Whole,
        }
    }
}

impl Log {
    /// Appends a group of events; returns one outcome per event, in order. New events with a receipt are durable when it returns.
    pub(in crate::log) async fn append_on_postgres(&self, group: &[Append]) -> Result<Vec<AppendOutcome>, LogError> {
        let mut outcomes = Outcomes::with_capacity(group.len());
        let mut left = self.attempt(group, ChainPart::all(group), &mut outcomes).await?;
        for pause in PAUSES {
            if left.is_empty() {
                break;
            }
            tokio::time::sleep(pause).await;
            left = self.attempt(group, left, &mut outcomes).await?;
        }
        let mut ordered = vec![AppendOutcome::Busy; group.len()];
        for (event, outcome) in outcomes {
            if let Some(place) = ordered.get_mut(event) {
                *place = outcome.map_err(LogError::Group)?;
            }
        }
        Ok(ordered)
    }

    /// Tries to settle chains, repeatedly if other processes move them; returns the rest. After an error, events without an outcome may be
    /// stored.
    pub(super) async fn attempt(
        &self,
        group: &[Append],
        parts: Vec<ChainPart>,
        outcomes: &mut Outcomes,
    ) -> Result<Vec<ChainPart>, LogError> {
        let (mut moved, mut left) = (parts, Vec::new());
        for _ in 0..ROUNDS_MAX {
            if moved.is_empty() {
                break;
            }
            let round = self.round(group, moved, outcomes).await;
            // A wait for another process has been recorded.
            if !matches!(&round, Ok(parts) if parts.iter().any(|part| part.unsettled == Unsettled::Alone)) {
                self.appends.note(&round, self.clock.now());
            }
            let (again, later): (Vec<_>, Vec<_>) =
                round?.into_iter().partition(|part| part.unsettled == Unsettled::Moved);
            left.extend(later);
            moved = again;
        }
        left.extend(moved);
        Ok(left)
    }

    /// One attempt: at most one statement that reads, one that adds sources, and one that writes. Returns the unsettled chains.
    async fn round(
        &self,
        group: &[Append],
        parts: Vec<ChainPart>,
        outcomes: &mut Outcomes,
    ) -> Result<Vec<ChainPart>, LogError> {
        let mut sources = SourceNumbers::new();
        let (free, mut left) = without_shared_ids(group, parts);
        let (mut plans, mut unknown): (Vec<Plan>, Vec<ChainPart>) = (Vec::new(), Vec::new());
        for part in free {
            let head = if part.reads { None } else { self.heads.get(&part.key) };
            let judged = head.map(|head| judge(&part, group, Some(head), &KnownEvents::new()));
            match judged {
                Some(judged) if !judged.has_refusal => plans.push((part, judged)),
                _ => unknown.push(part),
            }
        }
        if !unknown.is_empty() {
            let rows = self.read_chains(group, &unknown, &mut sources).await?;
            for (place, part) in unknown.into_iter().enumerate() {
                let head = rows.heads.get(&place).copied();
                let judged = judge(&part, group, head, &rows.events);
                if judged.additions.is_empty() {
                    settle(&part, judged.outcomes, outcomes);
                    if let Some(head) = head {
                        self.heads.insert(part.key, head);
                    }
                } else {
                    plans.push((part, judged));
                }
            }
        }
        if plans.is_empty() {
            return Ok(left);
        }
        if let Err(error) = self.add_sources(group, &mut sources).await {
            return match Failure::of(&error) {
                Failure::Raced | Failure::Waited => {
                    left.extend(plans.into_iter().map(|(part, _)| ChainPart { unsettled: Unsettled::Locked, ..part }));
                    Ok(left)
                }
                Failure::Rejected | Failure::Whole => Err(error),
            };
        }
        let (alone, together): (Vec<Plan>, Vec<Plan>) =
            plans.into_iter().partition(|(part, _)| part.unsettled == Unsettled::Alone);
        if !together.is_empty() {
            left.extend(self.write(group, together, &sources, outcomes).await?);
        }
        let begun = self.clock.now();
        for (part, judged) in alone {
            if self.clock.now() - begun > ALONE_MAX {
                left.push(part);
            } else {
                left.extend(self.write(group, vec![(part, judged)], &sources, outcomes).await?);
            }
        }
        Ok(left)
    }

    /// Writes some chains; returns the unsettled ones.
    async fn write(
        &self,
        group: &[Append],
        plans: Vec<Plan>,
        sources: &SourceNumbers,
        outcomes: &mut Outcomes,
    ) -> Result<Vec<ChainPart>, LogError> {
        let error = match self.write_chains(group, &plans, sources).await {
            Ok(rows) => {
                let mut left = Vec::new();
                for ((part, judged), row) in plans.into_iter().zip(rows) {
                    match self.result_of(&part, &judged, &row)? {
                        None => settle(&part, judged.outcomes, outcomes),
                        Some(unsettled) => left.push(ChainPart { unsettled, reads: row.taken, ..part }),
                    }
                }
                return Ok(left);
            }
            Err(error) => error,
        };
        // Whether the statement was executed may be unknown.
        for (part, _) in &plans {
            self.heads.remove(&part.key);
        }
        let unsettled = match Failure::of(&error) {
            Failure::Raced => Unsettled::Moved,
            Failure::Waited => {
                tracing::warn!(error = domain::reasons(&error), "an append waited for another process");
                self.appends.note::<()>(&Err(error), self.clock.now());
                Unsettled::Alone
            }
            Failure::Rejected if plans.len() > 1 => {
                tracing::warn!(
                    chains = plans.len(),
                    error = domain::reasons(&error),
                    "a group of events was not committed; each chain is tried alone"
                );
                Unsettled::Alone
            }
            Failure::Rejected => {
                let error = Arc::new(error);
                for event in plans.iter().flat_map(|(part, _)| &part.events) {
                    outcomes.push((*event, Err(Arc::clone(&error))));
                }
                return Ok(Vec::new());
            }
            Failure::Whole => return Err(error),
        };
        Ok(plans.into_iter().map(|(part, _)| ChainPart { unsettled, reads: true, ..part }).collect())
    }
}

fn settle(part: &ChainPart, judged: Vec<AppendOutcome>, outcomes: &mut Outcomes) {
    outcomes.extend(part.events.iter().copied().zip(judged.into_iter().map(Ok)));
}

/// Separates chains that contain an event id of another chain in the group: the outcome of one decides the other.
fn without_shared_ids(group: &[Append], parts: Vec<ChainPart>) -> (Vec<ChainPart>, Vec<ChainPart>) {
    let mut owned: HashSet<EventId> = HashSet::with_capacity(group.len());
    let (mut free, mut shared) = (Vec::with_capacity(parts.len()), Vec::new());
    for part in parts {
        let ids: Vec<EventId> = part.ids(group).collect();
        if ids.iter().any(|id| owned.contains(id)) {
            shared.push(ChainPart { reads: true, unsettled: Unsettled::Moved, ..part });
        } else {
            owned.extend(ids);
            free.push(part);
        }
    }
    (free, shared)
}
