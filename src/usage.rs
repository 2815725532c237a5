//! How much of its plan an account has left (`docs/protocol/account.md#usage-bar` and `docs/decisions/0027-usage-metering.md`). API, summary and account page show the same.

use actors::InfraError;
use domain::ids::UserAccountId;
use domain::recorder::Recorder;
use domain::usage::{PercentLeft, Plan, Window};
use store::usage::untold;
use store::{Store, StoreError};
use wire::usage::{Measure, UsageBar};

use crate::app::App;

/// Whose usage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UsageOwner {
    /// All computers that are or were attached to an account.
    Account(UserAccountId),
    /// One computer whose identity no account is linked to; it has the plan FREE, and its own events count.
    Computer(Recorder),
    /// A computer whose identity belongs to an account that it is not attached to. Nothing that it sends is recorded, and what the
    /// account used is not its to see: the plan FREE, untouched.
    Outsider,
}

/// The bar of an account or a computer as it is now, events included that got their receipt a moment ago. `None`: there is no such
/// account or identity.
pub async fn usage_bar(app: &App, owner: &UsageOwner) -> Result<Option<UsageBar>, InfraError> {
    let store = &app.store;
    let (plan, balance_cents, since, computers) = match owner {
        UsageOwner::Account(account) => {
            let Some(found) = store.account_by_id(account).await? else { return Ok(None) };
            (found.plan, found.balance_cents, found.created_at, computers_of(store, account).await?)
        }
        UsageOwner::Computer(recorder) => {
            let Some(found) = store.identity(&recorder.identity).await? else { return Ok(None) };
            (Plan::Free, 0, found.created_at, vec![recorder.clone()])
        }
        UsageOwner::Outsider => (Plan::Free, 0, app.clock.now(), Vec::new()),
    };
    let allowance = app.settings.plans.of(plan);
    let window = Window::at(since, app.clock.now(), allowance.window_days);
    let used = app.usage.of(&computers, window).await?;
    let measure = |limit, used| Measure { percent_left: PercentLeft::of(limit, used), reset_at: window.reset_at() };
    let top_up_url = app.settings.account.top_up_url.clone();
    Ok(Some(UsageBar {
        plan,
        memory: measure(allowance.memory_events, used.memory),
        retrospective: measure(allowance.retrospectives, used.retrospectives),
        balance_cents,
        top_up_url: top_up_url.unwrap_or_else(|| format!("{}/account", app.base_url)),
    }))
}

/// Recorders whose events count for an account: its computers, and its identities, whose older counts do not distinguish computers.
async fn computers_of(store: &Store, account: &UserAccountId) -> Result<Vec<Recorder>, StoreError> {
    let mut computers = store.recorders_of_account(account).await?.computers;
    computers.extend(store.identities_of_account(account).await?.into_iter().map(untold));
    Ok(computers)
}
