//! Computers are attached by device code (`docs/protocol/computers.md`; RFC 8628).

use std::sync::Arc;

use actors::device::{AnswerError, DeviceCodes, Extras, Poll, StartError};
use app::config::Urls;
use app::services::devices::DeviceApprovals;
use axum::extract::State;
use domain::agent_right::AgentRight;
use domain::api_key::{ApiKeyScope, scopes_of};
use domain::device::{CODE_SECONDS, INTERVAL_SECONDS, UserCode, WantedAgent, WantedKey};
use serde_json::json;
use wire::Done;
use wire::device::{
    AgentWanted, ApproveRequest, CodeRequest, DEVICE_GRANT, DenyRequest, DeviceCodeResult, DeviceTokenRequest,
    DeviceTokenResult, KeyWanted,
};

use super::auth::{Caller, decision_refused, unauthorized};
use super::body::{self, JsonBody, RawBody};
use super::client::ClientAddress;
use super::error::{ApiError, ApiResult, Code};
use super::limits::RateLimiters;

/// `POST /api/v1/device/code`
pub async fn code(
    State(devices): State<DeviceCodes>,
    State(urls): State<Arc<Urls>>,
    caller: Caller,
    ClientAddress(address): ClientAddress,
    RawBody(body): RawBody,
) -> ApiResult {
    let Caller::Machine { facts, .. } = &caller else { return Err(unauthorized(Code::Unauthorized, true, &urls)) };
    let CodeRequest { user_cuid, machine_uuid, api_key, agent } = body::json_or_invalid_json(&body)?;
    if user_cuid != facts.user_cuid || machine_uuid != facts.machine_uuid {
        return Err(Code::MachineMismatch.into());
    }
    let (key, agent) = (api_key.map(wanted), agent.as_ref().map(wanted_agent));
    let started = match devices.start(facts, Some(address.to_string()), key, agent).await? {
        Ok(started) => started,
        Err(StartError::MachineGone) => return Err(unauthorized(Code::MachineUnknown, true, &urls)),
        Err(StartError::Agent(refusal)) => return Err(ApiError::invalid("agent", refusal.to_string())),
        Err(StartError::TooMany { retry_after }) => return Err(ApiError::unavailable("too_many_codes", retry_after)),
    };
    let (page, user_code) = (format!("{}/device", urls.base), started.user_code.shown());
    body::answer(&DeviceCodeResult {
        device_code: started.device_code,
        verification_uri_complete: format!("{page}?user_code={user_code}"),
        user_code,
        verification_uri: page,
        interval: INTERVAL_SECONDS.into(),
        expires_in: CODE_SECONDS.unsigned_abs(),
    })
}

/// The key that a computer requests; by default with the scopes to search and to add.
fn wanted(KeyWanted { sha256, scopes }: KeyWanted) -> WantedKey {
    let default = vec![ApiKeyScope::Search, ApiKeyScope::Write];
    WantedKey { hash: sha256.into(), scopes: if scopes.is_empty() { default } else { scopes_of(&scopes) } }
}

fn wanted_agent(AgentWanted { registration_id, claim_token, tool }: &AgentWanted) -> WantedAgent {
    WantedAgent { registration: *registration_id, claim_token: claim_token.hash(), tool: *tool }
}

/// `POST /api/v1/device/approve`. A requested key or agent can only be confirmed on the page, which names them.
pub async fn approve(
    State(devices): State<DeviceApprovals>,
    State(limits): State<Arc<RateLimiters>>,
    State(urls): State<Arc<Urls>>,
    caller: Caller,
    ClientAddress(address): ClientAddress,
    JsonBody(body): JsonBody<ApproveRequest>,
) -> ApiResult {
    if body.consent.is_some() {
        caller.require_right(AgentRight::SetConsent)?;
    }
    let (person, with) = caller.decides().ok_or_else(|| unauthorized(Code::Unauthorized, true, &urls))?;
    let approver = devices.approver(person, with).map_err(|refusal| decision_refused(refusal, &urls))?;
    let user_code = user_code(&body.user_code)?;
    limits.code_guess(address)?;
    let extras = Extras { consent: body.consent, ..Extras::default() };
    devices.approve(&user_code, approver, extras).await?.map_err(|error| refused(error, &devices))?;
    body::answer(&Done::OK)
}

/// `POST /api/v1/device/deny`: `{ok: true}`; polls of the computer then return `access_denied`.
pub async fn deny(
    State(devices): State<DeviceApprovals>,
    State(limits): State<Arc<RateLimiters>>,
    State(urls): State<Arc<Urls>>,
    caller: Caller,
    ClientAddress(address): ClientAddress,
    JsonBody(body): JsonBody<DenyRequest>,
) -> ApiResult {
    let (person, with) = caller.decides().ok_or_else(|| unauthorized(Code::Unauthorized, true, &urls))?;
    let denier = devices.denier(person, with).map_err(|refusal| decision_refused(refusal, &urls))?;
    let user_code = user_code(&body.user_code)?;
    limits.code_guess(address)?;
    devices.deny(&user_code, denier).await?.map_err(|error| refused(error, &devices))?;
    body::answer(&Done::OK)
}

/// `POST /api/v1/device/token`: 200 once a person approved; no access token is issued.
pub async fn token(State(devices): State<DeviceCodes>, JsonBody(body): JsonBody<DeviceTokenRequest>) -> ApiResult {
    if body.grant_type != DEVICE_GRANT {
        return Err(ApiError::invalid("grant_type", format!("must be {DEVICE_GRANT}")));
    }
    if body.device_code.expose().is_empty() {
        return Err(ApiError::invalid("device_code", "must not be empty"));
    }
    match devices.poll(&body.device_code).await? {
        Poll::Claimed(account) => {
            body::answer(&DeviceTokenResult { user_account_id: account, status: "claimed".to_owned() })
        }
        Poll::Pending => Err(Code::AuthorizationPending.into()),
        Poll::SlowDown { interval } => Err(ApiError::new(Code::SlowDown).with("interval", json!(interval))),
        Poll::Denied => Err(Code::AccessDenied.into()),
        Poll::Expired => Err(Code::ExpiredToken.into()),
    }
}

/// A text that is no valid code is refused like an unknown code.
fn user_code(typed: &str) -> Result<UserCode, ApiError> {
    if typed.is_empty() {
        return Err(ApiError::invalid("user_code", "must not be empty"));
    }
    typed.parse().map_err(|_| Code::CodeConsumed.into())
}

fn refused(error: AnswerError, devices: &DeviceApprovals) -> ApiError {
    let code = match error {
        // `AgentGone` only occurs on pages: this route confirms no agent.
        AnswerError::CodeConsumed | AnswerError::AgentGone => Code::CodeConsumed,
        AnswerError::MachineNotRegistered => Code::MachineNotRegistered,
        AnswerError::MachineAlreadyClaimed => Code::MachineAlreadyClaimed,
        AnswerError::CuidAlreadyClaimed => {
            return ApiError::new(Code::CuidAlreadyClaimed).with("details", json!(CLAIMED_BY_ANOTHER));
        }
        AnswerError::NotTheFirst => {
            return ApiError::new(Code::CuidAlreadyClaimed).with("details", json!(not_the_first(devices)));
        }
        AnswerError::PersonBoundToOtherAccount => Code::PersonBoundToOtherAccount,
        AnswerError::AccountRequired => Code::AccountRequired,
        AnswerError::TooManyKeys => Code::TooManyKeys,
    };
    code.into()
}

/// Error message for a computer with an identity of another account, with the remedy.
const CLAIMED_BY_ANOTHER: &str = "The identity of this computer belongs to another person's account. Register the computer under an \
    identity of your own, or let that person approve it.";

/// Error message for a computer that may not claim its identity, which belongs to no account, with the remedy.
fn not_the_first(devices: &DeviceApprovals) -> String {
    format!(
        "Another computer registered under the identity of this computer before it, and neither is attached to an account. Anybody who \
        knows an identity can register under it, so only its first computer can bring it to an account. Attach that computer first; \
        then this one can be approved. Or ask the operator, who can attach it with `attache admin machine attach`. A first computer \
        that was never attached is removed after {} without a request, and the identity is free then.",
        humantime_serde::re::humantime::format_duration(devices.unattached_kept())
    )
}
