//! Counts usage (`docs/decisions/0008-usage-and-quotas.md`).
//!
//! With the embedded log the meter follows the tree: about once a second it sums the leaves after its cursor, and adds the sum and the new
//! cursor in one transaction of the main database, guarded by the old cursor. So every leaf is counted once, by the first node that commits
//! it, even if a process crashes in between. The event path does no counting. A request for the usage adds the leaves after the cursor, so
//! the response is correct as soon as an event has its receipt.
//!
//! With an external statistics service there is no log to follow. Intake reports every receipt, the [`ReceiptCounter`] counts it in memory,
//! once for each event id that it remembers, and the meter writes the counts about once a second.
//!
//! **If it crashes:** with the embedded log nothing is lost, and the next pass continues at the cursor. With an external service the counts
//! survive a crash of the actor; a crash of the process loses up to a second of counts, and a resend after that, or to another node, is
//! counted again. A write with an unknown outcome is repeated.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use domain::Timestamp;
use domain::ids::EventId;
use domain::log_part::LogPart;
use domain::recorder::{Recorder, Recorders};
use domain::usage::{Day, QuotaUsed, UsageWindow};
use statistics::log::Log;
use statistics::parts::Logs;
use store::Store;
use store::usage::UsageDay;
use supervision::periodic::{Next, Pass, PassError};
use tokio::sync::RwLock;

use crate::infra_error::InfraError;
use crate::upstream::Upstream;

/// Leaves that one pass counts; if more remain, the next pass follows at once.
const LEAVES_MAX: u32 = 20_000;

/// Leaves after the cursor that a request reads; if the meter is further behind, the response is too low until it has caught up.
const BEYOND_MAX: u32 = 50_000;

/// Event ids that the counter remembers, so that a resend is not counted again.
const EVENTS_REMEMBERED: usize = 65_536;

/// Counts usage and reports it. Clones share the counts.
#[derive(Debug, Clone)]
pub struct Usage {
    store: Store,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    Log(Logs),
    ReceiptCounter(Arc<ReceiptCounter>),
}

impl Usage {
    /// Counts the events that go to `upstream`.
    pub fn new(store: Store, upstream: &Upstream) -> Self {
        let source = match upstream {
            Upstream::Embedded { log, .. } => Source::Log(log.clone()),
            Upstream::External(_) => Source::ReceiptCounter(Arc::default()),
        };
        Self { store, source }
    }

    /// The counter that intake reports receipts to; `None` with the embedded log.
    pub fn tally(&self) -> Option<Arc<ReceiptCounter>> {
        match &self.source {
            Source::Log(_) => None,
            Source::ReceiptCounter(tally) => Some(Arc::clone(tally)),
        }
    }

    /// Usage of the computers in a window, up to now.
    #[boxed]
    pub async fn of(&self, recorders: &Recorders, window: UsageWindow) -> Result<QuotaUsed, InfraError> {
        let computers = &recorders.computers;
        match &self.source {
            Source::Log(log) => {
                let counted = self.store.usage_of(computers, window).await?;
                let beyond = log.usage_beyond(&counted, recorders, window, BEYOND_MAX).await;
                let beyond = beyond.map_err(|error| InfraError::Internal(domain::reasons(&error)))?;
                Ok(counted.used + beyond)
            }
            Source::ReceiptCounter(tally) => {
                // While this lock is held no counts move from memory to the store, so each is read exactly once.
                let _still = tally.moving.read().await;
                let counted = self.store.usage_of(computers, window).await?;
                Ok(counted.used + tally.of(computers, window))
            }
        }
    }

    /// Counts further leaves of a part, or writes counts that are only in memory.
    async fn settle(&self, part: LogPart) -> Result<Next, PassError> {
        match &self.source {
            // A part that is not open has no new leaves.
            Source::Log(logs) => match logs.get(part) {
                Ok(log) => self.follow(part, log).await,
                Err(_) => Ok(Next::Idle),
            },
            Source::ReceiptCounter(tally) => tally.flush(&self.store).await.map(|()| Next::AfterPause),
        }
    }

    /// Writes the counts that exist only in memory; does nothing with the embedded log.
    #[boxed]
    pub async fn finish(&self) -> Result<(), PassError> {
        match &self.source {
            Source::Log(_) => Ok(()),
            Source::ReceiptCounter(tally) => tally.flush(&self.store).await,
        }
    }

    async fn follow(&self, part: LogPart, log: &Log) -> Result<Next, PassError> {
        let counted = self.store.usage_counted(part).await?;
        let (until, days) = log.usage_from(counted, LEAVES_MAX).await?;
        if until == counted {
            return Ok(Next::Idle);
        }
        domain::failpoint!("meter.count");
        // The write does nothing if another node has counted these leaves; more may follow.
        self.store.usage_count(part, counted, until, &days).await?;
        domain::failpoint!("meter.counted");
        // Log spans end at transaction boundaries, so a full pass may count a little less than the maximum.
        Ok(Next::at_once_if(until - counted > u64::from(LEAVES_MAX) / 2))
    }
}

/// One step of counting the leaves of a part.
#[derive(Debug, Clone)]
pub struct UsageMeter {
    /// The counts.
    pub usage: Usage,
    /// The part.
    pub part: LogPart,
}

impl Pass for UsageMeter {
    type Memory = ();

    async fn run(&self, (): &mut ()) -> Result<Next, PassError> {
        domain::failpoint!("meter.pass");
        self.usage.settle(self.part).await
    }
}

/// Receipts of an external service, counted in memory until they are written.
#[derive(Debug, Default)]
pub struct ReceiptCounter {
    counts: Mutex<Counts>,
    /// Held while counts are moved to the store, and shared by requests for the sum of both.
    moving: RwLock<()>,
}

#[derive(Debug, Default)]
struct Counts {
    days: HashMap<(Recorder, Day), QuotaUsed>,
    seen: HashSet<EventId>,
    /// The same ids, the oldest first.
    order: VecDeque<EventId>,
}

impl ReceiptCounter {
    /// Counts the receipt of an event.
    pub fn receipt(&self, event_id: EventId, recorder: &Recorder, used: QuotaUsed, received_at: Timestamp) {
        if used.is_nothing() {
            return;
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if !counts.seen.insert(event_id) {
            return;
        }
        counts.order.push_back(event_id);
        if counts.order.len() > EVENTS_REMEMBERED
            && let Some(oldest) = counts.order.pop_front()
        {
            counts.seen.remove(&oldest);
        }
        *counts.days.entry((recorder.clone(), Day::of(received_at))).or_default() += used;
    }

    fn of(&self, computers: &[Recorder], window: UsageWindow) -> QuotaUsed {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let own = counts.days.iter().filter(|((recorder, day), _)| computers.contains(recorder) && window.holds(*day));
        own.fold(QuotaUsed::default(), |sum, (_, used)| sum + *used)
    }

    async fn flush(&self, store: &Store) -> Result<(), PassError> {
        let _moving = self.moving.write().await;
        let days: Vec<UsageDay> = {
            let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            let day = |((recorder, day), used): (&(Recorder, Day), &QuotaUsed)| UsageDay {
                recorder: recorder.clone(),
                day: *day,
                used: *used,
            };
            counts.days.iter().map(day).collect()
        };
        if days.is_empty() {
            return Ok(());
        }
        store.usage_add(&days).await?;
        // Subtracts only the written counts: more may have been added during the write.
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for written in days {
            let key = (written.recorder, written.day);
            if let Some(left) = counts.days.get_mut(&key) {
                *left = left.less(written.used);
                if left.is_nothing() {
                    counts.days.remove(&key);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use domain::Rng;

    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_timestamp_millis(1_767_225_600_123).unwrap()
    }

    #[test]
    fn a_receipt_counts_once_however_often_it_comes() {
        let (tally, rng) = (ReceiptCounter::default(), Rng::seeded(1));
        let recorder = || Recorder { machine: rng.uuid_v7(now()).into(), identity: "identity".parse().unwrap() };
        let (ada, bob) = (recorder(), recorder());
        let event = rng.uuid_v7(now()).into();
        let memory = QuotaUsed { memory: 1, retrospectives: 0 };
        for _ in 0..3 {
            tally.receipt(event, &ada, memory, now());
        }
        tally.receipt(rng.uuid_v7(now()).into(), &ada, QuotaUsed::default(), now());
        tally.receipt(rng.uuid_v7(now()).into(), &bob, memory, now());
        let today = Day::of(now());
        let window = UsageWindow { first: today, end: today.next() };
        assert_eq!(tally.of(std::slice::from_ref(&ada), window), memory);
        assert_eq!(tally.of(&[ada.clone(), bob], window), memory + memory);
        let next = UsageWindow { first: window.end, end: Day::from(today.number() + 2) };
        assert_eq!(tally.of(&[ada], next), QuotaUsed::default());
    }

    #[test]
    fn the_memory_of_event_ids_is_bounded() {
        let (tally, rng) = (ReceiptCounter::default(), Rng::seeded(1));
        let ada = Recorder { machine: rng.uuid_v7(now()).into(), identity: "identity".parse().unwrap() };
        for _ in 0..EVENTS_REMEMBERED + 10 {
            tally.receipt(rng.uuid_v7(now()).into(), &ada, QuotaUsed { memory: 1, retrospectives: 0 }, now());
        }
        let counts = tally.counts.lock().unwrap();
        assert_eq!((counts.seen.len(), counts.order.len()), (EVENTS_REMEMBERED, EVENTS_REMEMBERED));
    }
}
