//! The usage bar (`docs/protocol/account.md`).

use std::sync::Arc;

use app::config::Urls;
use app::services::usage::{UsageBars, UsageOwner};
use axum::extract::State;
use axum::response::IntoResponse;
use domain::recorder::Recorder;

use super::auth::{Caller, unauthorized};
use super::error::{ApiResult, Code};

/// `GET /api/v1/usage/bar`: 200 `UsageBar`. A computer gets the bar of its account; without an account, its own usage of the plan FREE.
pub async fn bar(State(usage): State<UsageBars>, State(urls): State<Arc<Urls>>, caller: Caller) -> ApiResult {
    // There is no bar for a person without an account, nor for a credential of a deleted account.
    let refused = || unauthorized(Code::Unauthorized, true, &urls);
    let owner = owner(&caller).ok_or_else(refused)?;
    let bar = usage.bar(&owner).await?;
    Ok(axum::Json(bar.ok_or_else(refused)?).into_response())
}

fn owner(caller: &Caller) -> Option<UsageOwner> {
    match (caller.account(), caller) {
        (Some(account), _) => Some(UsageOwner::Account(account.clone())),
        (None, Caller::Machine { facts, .. }) if facts.is_outsider() => Some(UsageOwner::Outsider),
        (None, Caller::Machine { facts, .. }) => {
            let recorder = Recorder { machine: facts.machine_uuid, identity: facts.user_cuid.clone() };
            Some(UsageOwner::Computer(recorder, facts.part))
        }
        (None, _) => None,
    }
}
