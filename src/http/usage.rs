//! How much is left (`docs/protocol/account.md`).

use axum::extract::State;
use axum::response::IntoResponse;
use domain::recorder::Recorder;

use super::auth::{Caller, unauthorized};
use super::error::{ApiError, ApiResult, Code};
use crate::app::App;
use crate::usage::{UsageOwner, usage_bar};

/// `GET /api/v1/usage/bar`: 200 `UsageBar`. A computer sees the bar of its account; without one, its own
/// usage of the plan FREE.
pub async fn bar(State(app): State<App>, caller: Caller) -> ApiResult {
    // A person without an account has nothing that a bar could show; nor has a credential whose account is gone.
    let refused = || unauthorized(Code::Unauthorized, true, &app);
    let owner = owner(&caller).ok_or_else(refused)?;
    let bar = usage_bar(&app, &owner).await.map_err(ApiError::from)?;
    Ok(axum::Json(bar.ok_or_else(refused)?).into_response())
}

fn owner(caller: &Caller) -> Option<UsageOwner> {
    match (caller.account(), caller) {
        (Some(account), _) => Some(UsageOwner::Account(account.clone())),
        (None, Caller::Machine { facts, .. }) if facts.is_outsider() => Some(UsageOwner::Outsider),
        (None, Caller::Machine { facts, .. }) => {
            Some(UsageOwner::Computer(Recorder { machine: facts.machine_uuid, identity: facts.user_cuid.clone() }))
        }
        (None, _) => None,
    }
}
