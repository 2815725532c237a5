//! Quotas of event senders: of each account, by its plan, and of senders without an account (unattached computers and unclaimed agents).
//!
//! Counts are kept in memory; the first event of a sender on a day reads its counts from the store. About once a second the keeper adds the
//! new counts to the store and reads the sums of all nodes. The counts of accounts are written every ten passes, or as soon as a part of
//! the quota is reached: an account that sends one event a second costs one row in ten events.
//!
//! **Guarantee:** within one process no sender exceeds its quota. Nodes exchange counts only when they write, so on several nodes a sender
//! may exceed it by what each further node accepts until its next write: one second, and for accounts a 64th of the quota or ten seconds. A
//! process that stops writes its counts; a process that crashes loses the counts since its last write. Every accepted event counts, a
//! resend too; a refused or failed event does not. A spent quota is read again after a second, with the plan of the account.
//!
//! **Memory is bounded:** senders with written counts can be forgotten, since the store has the counts. At the maximum they are removed; if
//! nearly all senders have unwritten counts, new senders are refused with a retry after one second.
//!
//! **If it crashes:** the counts live outside the actor, and the next pass writes them. A write with an unknown outcome is repeated.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use domain::Timestamp;
use domain::live::Live;
use domain::usage::{ByPlan, Day, Plan};
use serde::{Deserialize, Serialize};
use store::budget::Spent;
use store::held::Sender;
use store::{Store, StoreError};
use supervision::periodic::{Next, Pass, PassError};

const KNOWN_MAX: usize = 100_000;

/// Time after which a spent quota is read again.
const REREAD_AFTER: TimeDelta = TimeDelta::seconds(1);

/// Passes between two writes of the counts of accounts.
const PASSES_OF_ACCOUNTS: u64 = 10;

/// Maximum number of senders written in one transaction.
const WRITTEN_AT_ONCE: usize = 1000;

/// `[events.unattached]`: the budget for a UTC day of one computer that is attached to no account, or of one unclaimed agent.
/// 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct BudgetSettings {
    pub bytes_per_day: u64,
    pub events_per_day: u64,
}

impl Default for BudgetSettings {
    fn default() -> Self {
        Self { bytes_per_day: 16 * 1024 * 1024, events_per_day: 20_000 }
    }
}

/// Decision about one more event of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetDecision {
    /// The event is counted and may be sent.
    Taken,
    /// The quota of the day is spent.
    Spent {
        /// Until the next day.
        retry_after: Duration,
    },
    /// The maximum number of senders is in memory.
    Crowded,
}

/// Counts of events and bytes by sender. Clones share the counts.
#[derive(Debug, Clone)]
pub struct Budgets {
    store: Store,
    settings: Live<BudgetSettings>,
    /// Bytes a day of an account; 0 is no limit.
    accounts: Live<ByPlan<u64>>,
    known: Arc<DashMap<Sender, Known>>,
}

/// The counts of a sender.
#[derive(Debug, Clone, Copy)]
struct Known {
    day: Day,
    /// Sum over all nodes in the store, when it was last read.
    written: Spent,
    /// Counts of this node that are not in the store yet; negative for events that were given back after they were written.
    ours: Spent,
    /// The plan of an account; `None` for a sender without an account.
    plan: Option<Plan>,
    /// When `written` and `plan` were read.
    read_at: Timestamp,
}

/// Usage and limits of a sender on a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetState {
    /// Events of the day so far.
    pub spent: Spent,
    /// The limits of a day.
    pub limits: BudgetSettings,
}

impl Budgets {
    /// Starts with no counts. `accounts`: bytes a day, by plan.
    pub fn new(
        store: Store,
        settings: impl Into<Live<BudgetSettings>>,
        accounts: impl Into<Live<ByPlan<u64>>>,
    ) -> Self {
        Self { store, settings: settings.into(), accounts: accounts.into(), known: Arc::default() }
    }

    /// Counts one event of a sender, unless its quota is spent.
    #[boxed]
    pub async fn take(&self, sender: &Sender, bytes: usize, now: Timestamp) -> Result<BudgetDecision, StoreError> {
        let today = Day::of(now);
        if let Some(mut slot) = self.known.get_mut(sender)
            && slot.day == today
        {
            let limits = self.limits(slot.plan);
            let decision = slot.count(bytes, limits, now);
            let is_fresh = (now - slot.read_at).abs() < REREAD_AFTER;
            if decision == BudgetDecision::Taken || is_fresh {
                return Ok(decision);
            }
        }
        if self.known.len() >= KNOWN_MAX {
            self.known.retain(|_, slot| slot.day == today && slot.is_unwritten());
            if self.known.len() >= KNOWN_MAX && !self.known.contains_key(sender) {
                return Ok(BudgetDecision::Crowded);
            }
        }
        let (written, plan) = self.stored(sender, today).await?;
        let mut slot = match self.known.entry(sender.clone()) {
            Entry::Occupied(mut slot) if slot.get().day == today => {
                let counts = slot.get_mut();
                // Another request, or the keeper, may have read a newer sum.
                counts.written.events = counts.written.events.max(written.events);
                counts.written.bytes = counts.written.bytes.max(written.bytes);
                (counts.plan, counts.read_at) = (plan, now);
                slot.into_ref()
            }
            entry => entry.insert(Known { day: today, written, ours: Spent::default(), plan, read_at: now }),
        };
        Ok(slot.count(bytes, self.limits(plan), now))
    }

    /// Current usage and limits of the sender, according to this node.
    #[boxed]
    pub async fn state(&self, sender: &Sender, now: Timestamp) -> Result<BudgetState, StoreError> {
        let today = Day::of(now);
        let (spent, plan) = self.stored(sender, today).await?;
        let pending = self.known.get(sender).filter(|entry| entry.day == today).map(|entry| entry.ours);
        Ok(BudgetState { spent: sum(spent, pending.unwrap_or_default()), limits: self.limits(plan) })
    }

    /// The stored counts of all nodes, and the plan of an account.
    async fn stored(&self, sender: &Sender, today: Day) -> Result<(Spent, Option<Plan>), StoreError> {
        let spent = self.store.budget_spent(sender, today).await?;
        let plan = match sender {
            Sender::Account(account) => {
                Some(self.store.account_by_id(account).await?.map_or(Plan::Free, |account| account.plan))
            }
            Sender::Machine(_) | Sender::Registration(_) => None,
        };
        Ok((spent, plan))
    }

    /// The limits in force for an account with this plan, or for a sender without an account.
    fn limits(&self, plan: Option<Plan>) -> BudgetSettings {
        match plan {
            Some(plan) => BudgetSettings { events_per_day: 0, bytes_per_day: self.accounts.get().of(plan) },
            None => **self.settings.get(),
        }
    }

    /// Subtracts an event from the counts: it was counted on the day of `then`, and was refused or failed.
    pub fn give_back(&self, sender: &Sender, bytes: usize, then: Timestamp) {
        if let Some(mut entry) = self.known.get_mut(sender)
            && entry.day == Day::of(then)
        {
            entry.ours = less(entry.ours, of_one(bytes));
        }
    }

    /// Writes all counts that are only in memory, and reads the counts of other nodes.
    #[boxed]
    pub async fn settle(&self) -> Result<(), PassError> {
        self.write(|_, _| true).await
    }

    /// Writes the counts that `is_due` selects.
    async fn write(&self, is_due: impl Fn(&Sender, &Known) -> bool + Send) -> Result<(), PassError> {
        let unwritten = self.known.iter().filter(|entry| entry.is_unwritten() && is_due(entry.key(), entry));
        let counts: Vec<(Sender, Day, Spent)> =
            unwritten.map(|entry| (entry.key().clone(), entry.day, entry.ours)).collect();
        for counts in counts.chunks(WRITTEN_AT_ONCE) {
            let sums = self.store.budget_add(counts).await?;
            for ((sender, day, added), sum) in counts.iter().zip(sums) {
                // More events may have been counted during the write, and the day may have ended.
                if let Some(mut entry) = self.known.get_mut(sender)
                    && entry.day == *day
                {
                    entry.ours = less(entry.ours, *added);
                    entry.written = sum;
                }
            }
        }
        Ok(())
    }
}

impl Known {
    fn count(&mut self, bytes: usize, limits: BudgetSettings, now: Timestamp) -> BudgetDecision {
        let exceeds = |limit: u64, spent: i64| limit > 0 && spent > i64::try_from(limit).unwrap_or(i64::MAX);
        let one = of_one(bytes);
        let spent = sum(sum(self.written, self.ours), one);
        let BudgetSettings { bytes_per_day, events_per_day } = limits;
        if exceeds(events_per_day, spent.events) || exceeds(bytes_per_day, spent.bytes) {
            let tomorrow = self.day.next().begin();
            return BudgetDecision::Spent { retry_after: (tomorrow - now).to_std().unwrap_or_default() };
        }
        self.ours = sum(self.ours, one);
        BudgetDecision::Taken
    }

    /// Whether the unwritten part is large enough to matter to other nodes.
    fn is_much(&self, BudgetSettings { bytes_per_day, .. }: BudgetSettings) -> bool {
        bytes_per_day > 0 && self.ours.bytes.unsigned_abs() > bytes_per_day / 64
    }

    fn is_unwritten(&self) -> bool {
        self.ours != Spent::default()
    }
}

fn of_one(bytes: usize) -> Spent {
    Spent { events: 1, bytes: i64::try_from(bytes).unwrap_or(i64::MAX) }
}

fn sum(one: Spent, two: Spent) -> Spent {
    Spent { events: one.events.saturating_add(two.events), bytes: one.bytes.saturating_add(two.bytes) }
}

fn less(one: Spent, two: Spent) -> Spent {
    Spent { events: one.events.saturating_sub(two.events), bytes: one.bytes.saturating_sub(two.bytes) }
}

/// The pass that writes the counts to the store.
#[derive(Debug, Clone)]
pub struct BudgetKeeper(pub Budgets);

impl Pass for BudgetKeeper {
    type Memory = u64;

    async fn run(&self, passes: &mut u64) -> Result<Next, PassError> {
        domain::failpoint!("budget.pass");
        let all = passes.is_multiple_of(PASSES_OF_ACCOUNTS) || self.0.known.len() > KNOWN_MAX / 2;
        let is_due = |sender: &Sender, entry: &Known| {
            all || !matches!(sender, Sender::Account(_)) || entry.is_much(self.0.limits(entry.plan))
        };
        let written = self.0.write(is_due).await;
        *passes += 1;
        written.map(|()| Next::AfterPause)
    }
}

#[cfg(test)]
mod tests {
    use domain::Rng;
    use store::DatabaseSettings;
    use tempfile::TempDir;

    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_timestamp_millis(1_767_225_600_123).unwrap()
    }

    async fn store() -> (Store, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&DatabaseSettings::default(), &folder.path().join("attache.db")).await.unwrap();
        store.migrate().await.unwrap();
        (store, folder)
    }

    fn sender() -> Sender {
        Sender::Machine(Rng::system().uuid_v7(now()).into())
    }

    fn is_spent(asked: BudgetDecision) -> bool {
        matches!(asked, BudgetDecision::Spent { .. })
    }

    #[tokio::test]
    async fn counts_survive_the_process_and_are_shared_by_all() {
        let (store, _folder) = store().await;
        let budgets = || {
            Budgets::new(store.clone(), BudgetSettings { events_per_day: 5, bytes_per_day: 100 }, ByPlan::new(|_| 0))
        };
        let (one, other, sender) = (budgets(), budgets(), sender());
        for budgets in [&one, &other, &one, &other] {
            assert_eq!(budgets.take(&sender, 10, now()).await.unwrap(), BudgetDecision::Taken);
        }
        // Until both nodes have written, each counts only its own events.
        one.settle().await.unwrap();
        other.settle().await.unwrap();
        assert!(!is_spent(other.take(&sender, 10, now()).await.unwrap()));
        assert!(is_spent(other.take(&sender, 10, now()).await.unwrap()));
        other.settle().await.unwrap();
        assert!(is_spent(budgets().take(&sender, 10, now()).await.unwrap()));

        // An event that failed after it was written is subtracted in the store too.
        other.give_back(&sender, 10, now());
        other.give_back(&sender, 10, now() + TimeDelta::days(1));
        other.settle().await.unwrap();
        let again = budgets();
        assert!(is_spent(again.take(&sender, 61, now()).await.unwrap()), "bytes count too");
        assert_eq!(again.take(&sender, 60, now()).await.unwrap(), BudgetDecision::Taken);
        let BudgetDecision::Spent { retry_after } = again.take(&sender, 0, now()).await.unwrap() else {
            panic!("not spent")
        };
        assert_eq!(now() + TimeDelta::from_std(retry_after).unwrap(), Day::of(now()).next().begin());
        assert_eq!(again.take(&sender, 100, now() + TimeDelta::days(1)).await.unwrap(), BudgetDecision::Taken);
    }

    #[tokio::test]
    async fn a_changed_quota_is_in_force_at_once_and_counts_what_the_day_has_used() {
        let (store, _folder) = store().await;
        let settings = Live::new(BudgetSettings { events_per_day: 3, bytes_per_day: 0 });
        let accounts = Live::new(ByPlan::new(|_| 100_u64));
        let budgets = Budgets::new(store, settings.clone(), accounts.clone());
        let (machine, account) = (sender(), Sender::Account("ada1".parse().unwrap()));
        let took = async |sender: &Sender| budgets.take(sender, 40, now()).await.unwrap() == BudgetDecision::Taken;
        assert!(took(&machine).await && took(&machine).await && took(&account).await);
        settings.set(BudgetSettings { events_per_day: 2, bytes_per_day: 0 });
        accounts.set(ByPlan::new(|_| 79));
        assert!(!took(&machine).await && !took(&account).await);
        let limits = budgets.state(&account, now()).await.unwrap().limits;
        assert_eq!(limits, BudgetSettings { events_per_day: 0, bytes_per_day: 79 });
        settings.set(BudgetSettings { events_per_day: 0, bytes_per_day: 120 });
        accounts.set(ByPlan::new(|_| 80));
        assert!(took(&machine).await && !took(&machine).await);
        assert!(took(&account).await && !took(&account).await);
    }

    #[tokio::test]
    async fn memory_is_bounded_and_forgets_nothing_that_is_not_written() {
        let (store, _folder) = store().await;
        let budgets = Budgets::new(store, BudgetSettings { events_per_day: 1, bytes_per_day: 0 }, ByPlan::new(|_| 0));
        let known = |ours| Known { day: Day::of(now()), written: Spent::default(), ours, plan: None, read_at: now() };
        let first = sender();
        assert_eq!(budgets.take(&first, 1, now()).await.unwrap(), BudgetDecision::Taken);
        while budgets.known.len() < KNOWN_MAX {
            budgets.known.insert(sender(), known(Spent::default()));
        }
        assert_eq!(budgets.take(&sender(), 1, now()).await.unwrap(), BudgetDecision::Taken);
        assert_eq!(budgets.known.len(), 2, "those whose counts are in the store are read again when they come back");
        assert!(is_spent(budgets.take(&first, 1, now()).await.unwrap()));

        while budgets.known.len() < KNOWN_MAX {
            budgets.known.insert(sender(), known(Spent { events: 1, bytes: 1 }));
        }
        assert_eq!(budgets.take(&sender(), 1, now()).await.unwrap(), BudgetDecision::Crowded);
        assert!(is_spent(budgets.take(&first, 1, now()).await.unwrap()), "a known sender is still limited");
    }
}
