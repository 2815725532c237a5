//! The remaining share of a plan (`docs/protocol/account.md#usage-bar`, `docs/decisions/0008-usage-and-quotas.md`). The API, the account
//! summary and the account page show the same values.

pub use store::usage::UsageDay;

use std::sync::Arc;

use actors::InfraError;
use actors::budget::{BudgetState, Budgets};
use actors::meter::Usage;
use domain::Timestamp;
use domain::ids::UserAccountId;
use domain::live::Live;
use domain::log_part::LogPart;
use domain::recorder::{Recorder, Recorders};
use domain::usage::{Allowance, Day, PercentLeft, Plan, QuotaUsed, UsageWindow};
use store::held::Sender;
use wire::usage::{ByteLimit, Measure, UsageBar, UsageLimits};

use super::Ports;
use crate::config::{AccountSettings, PlanSettings, Urls};

/// The party that usage is counted for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UsageOwner {
    /// All computers that are or were attached to an account.
    Account(UserAccountId),
    /// One computer with an identity that is linked to no account. It has the plan FREE, and only its own events count.
    Computer(Recorder, LogPart),
    /// A computer with an identity of an account that it is not attached to. None of its events is recorded, and the usage of that
    /// account is private: the bar shows an unused plan FREE.
    Outsider,
}

/// Computes usage bars. Clones share the counts.
#[derive(Debug, Clone)]
pub struct UsageBars {
    ports: Ports,
    usage: Usage,
    budgets: Budgets,
    plans: Live<PlanSettings>,
    account: AccountSettings,
    urls: Arc<Urls>,
}

impl UsageBars {
    /// `usage` and `budgets` count events; `plans` and `account` are the sections `[plans]` and `[account]`.
    pub fn new(
        ports: Ports,
        (usage, budgets): (Usage, Budgets),
        plans: Live<PlanSettings>,
        account: AccountSettings,
        urls: Arc<Urls>,
    ) -> Self {
        Self { ports, usage, budgets, plans, account, urls }
    }

    /// The section `[account]`: the deadline of each section of a summary, and the page for additional balance.
    pub fn account_settings(&self) -> &AccountSettings {
        &self.account
    }

    /// The bar of an account or a computer, including just acknowledged events. `None` if there is no such account or identity.
    #[boxed]
    pub async fn bar(&self, owner: &UsageOwner) -> Result<Option<UsageBar>, InfraError> {
        Ok(self.numbers(owner).await?.map(|numbers| numbers.bar))
    }

    /// Like [`bar`](Self::bar), with the counts behind the shares.
    #[boxed]
    pub async fn numbers(&self, owner: &UsageOwner) -> Result<Option<UsageNumbers>, InfraError> {
        let Ports { store, clock, .. } = &self.ports;
        let now = clock.now();
        let (plan, balance_cents, since, computers) = match owner {
            UsageOwner::Account(account) => {
                let Some(row) = store.account_by_id(account).await? else { return Ok(None) };
                (row.plan, row.balance_cents, row.created_at, store.recorders_of_account(account).await?)
            }
            UsageOwner::Computer(recorder, part) => {
                let Some(row) = store.identity(&recorder.identity).await? else { return Ok(None) };
                let Recorder { machine, identity } = recorder.clone();
                (Plan::Free, 0, row.created_at, Recorders::of_computer(machine, identity, *part))
            }
            UsageOwner::Outsider => (Plan::Free, 0, now, Recorders::default()),
        };
        let allowance = self.plans.get().of(plan);
        let window = UsageWindow::at(since, now, allowance.window_days);
        let used = self.usage.of(&computers, window).await?;
        let measure = |limit, used| Measure { percent_left: PercentLeft::of(limit, used), reset_at: window.reset_at() };
        let top_up_url = self.account.top_up_url.clone();
        let bar = UsageBar {
            plan,
            memory: measure(allowance.memory_events, used.memory),
            retrospective: measure(allowance.retrospectives, used.retrospectives),
            balance_cents,
            top_up_url: top_up_url.unwrap_or_else(|| format!("{}/account", self.urls.base)),
            limits: self.limits(owner, allowance.memory_bytes, now).await?,
        };
        Ok(Some(UsageNumbers { bar, used, allowance }))
    }

    /// The limits in bytes and their use.
    async fn limits(
        &self,
        owner: &UsageOwner,
        memory_bytes_max: u64,
        now: Timestamp,
    ) -> Result<Option<UsageLimits>, InfraError> {
        let sender = match owner {
            UsageOwner::Account(account) => Sender::Account(account.clone()),
            UsageOwner::Computer(recorder, _) => Sender::Machine(recorder.machine),
            UsageOwner::Outsider => return Ok(None),
        };
        let limit = |limit: u64| (limit > 0).then_some(limit);
        let BudgetState { spent, limits } = self.budgets.state(&sender, now).await?;
        let tomorrow = Day::of(now).next().begin();
        let used = spent.bytes.max(0).unsigned_abs();
        let event_bytes = ByteLimit { used, limit: limit(limits.bytes_per_day), reset_at: Some(tomorrow) };
        let memory_bytes = match owner {
            UsageOwner::Account(account) => {
                let store = &self.ports.store;
                let usage = store.if_reachable(store.memory_usage(account)).await?;
                usage.map(|usage| ByteLimit { used: usage.bytes, limit: limit(memory_bytes_max), reset_at: None })
            }
            UsageOwner::Computer(..) | UsageOwner::Outsider => None,
        };
        Ok(Some(UsageLimits { event_bytes, memory_bytes }))
    }

    /// The usage of the computers of an account on each of the last `days` days, as far as it is counted.
    #[boxed]
    pub async fn history(&self, account: &UserAccountId, days: i64) -> Result<Vec<UsageDay>, InfraError> {
        let Ports { store, clock, .. } = &self.ports;
        let today = Day::of(clock.now()).number();
        let window = UsageWindow { first: Day::from(today - days + 1), end: Day::from(today + 1) };
        let recorders = store.recorders_of_account(account).await?;
        Ok(store.usage_history(&recorders.computers, window, HISTORY_ROWS_MAX).await?)
    }
}

/// Maximum number of computers times days in a history; older days are left out.
const HISTORY_ROWS_MAX: usize = 20_000;

/// A usage bar with its counts.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageNumbers {
    /// Used shares of the allowance.
    pub bar: UsageBar,
    /// The usage of the current window.
    pub used: QuotaUsed,
    /// The limits of the plan.
    pub allowance: Allowance,
}
