//! The agents of an account.

use actors::claim::Claims;
use app::services::labels::Labels;
use axum::extract::State;
use domain::ids::RegistrationId;
use wire::Done;
use wire::account::LabelRequest;

use super::account::label_of;
use super::auth::Caller;
use super::body::{self, JsonBody};
use super::error::{ApiResult, Code};
use super::named::Named;

/// `PATCH /api/v1/agents/{id}`: the account's name for an agent. Sessions only.
pub async fn rename(
    State(labels): State<Labels>,
    caller: Caller,
    Named(id): Named,
    JsonBody(body): JsonBody<LabelRequest>,
) -> ApiResult {
    let account = caller.require_account()?.clone();
    let id: RegistrationId = id.parse().map_err(|_| Code::NotFound)?;
    let label = label_of(&body)?;
    if labels.name_agent(id, account, label).await? { body::answer(&Done::OK) } else { Err(Code::NotFound.into()) }
}

/// `DELETE /api/v1/agents/{id}`: sets `revokedAt`; the agent's tokens, assertions and claim token stop working permanently, and everything
/// that it confirmed is revoked with it. A session revokes any agent of its account, an agent only itself.
pub async fn revoke(State(claims): State<Claims>, caller: Caller, Named(id): Named) -> ApiResult {
    let owner = caller.require_account()?.clone();
    // An agent of another account is refused like an unknown one.
    let id: RegistrationId = id.parse().map_err(|_| Code::NotFound)?;
    if matches!(caller, Caller::Account { agent, .. } if agent != id) {
        return Err(Code::SessionRequired.into());
    }
    if claims.revoke(id, Some(owner)).await? { body::answer(&Done::OK) } else { Err(Code::NotFound.into()) }
}
