//! How much of its plan an account has left (specification, *`UsageBar`*; decisions, section 10). API, summary and account page show the same.

use actors::Trouble;
use domain::ids::{UserAccountId, UserCuid};
use domain::usage::{PercentLeft, Plan, Window};
use wire::usage::{Measure, UsageBar};

use crate::house::House;

/// Whose usage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UsageOwner {
    /// All identities of an account.
    Account(UserAccountId),
    /// One identity that no account is linked to; it has the plan FREE.
    Identity(UserCuid),
    /// A computer whose identity belongs to an account that it is not attached to. Nothing that it sends is recorded, and what the
    /// account used is not its to see: the plan FREE, untouched.
    Outsider,
}

/// The bar of an account or an identity as it is now, events included that got their receipt a moment ago. `None`: there is no such
/// account or identity.
pub async fn usage_bar(house: &House, owner: &UsageOwner) -> Result<Option<UsageBar>, Trouble> {
    let store = &house.store;
    let (plan, balance_cents, since, identities) = match owner {
        UsageOwner::Account(account) => {
            let Some(found) = store.account_by_id(account).await? else { return Ok(None) };
            (found.plan, found.balance_cents, found.created_at, store.identities_of_account(account).await?)
        }
        UsageOwner::Identity(user_cuid) => {
            let Some(found) = store.identity(user_cuid).await? else { return Ok(None) };
            (Plan::Free, 0, found.created_at, vec![found.user_cuid])
        }
        UsageOwner::Outsider => (Plan::Free, 0, house.clock.now(), Vec::new()),
    };
    let allowance = house.settings.plans.of(plan);
    let window = Window::at(since, house.clock.now(), allowance.window_days);
    let used = house.usage.of(&identities, window).await?;
    let measure = |limit, used| Measure { percent_left: PercentLeft::of(limit, used), reset_at: window.reset_at() };
    let top_up_url = house.settings.account.top_up_url.clone();
    Ok(Some(UsageBar {
        plan,
        memory: measure(allowance.memory_events, used.memory),
        retrospective: measure(allowance.retrospectives, used.retrospectives),
        balance_cents,
        top_up_url: top_up_url.unwrap_or_else(|| format!("{}/account", house.base_url)),
    }))
}
