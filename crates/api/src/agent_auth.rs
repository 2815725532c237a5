//! Agents register, start claims, poll for tokens and give them back (`docs/protocol/agents.md`; RFC 6749, 7009, 7523).

use std::sync::Arc;

use actors::claim::{
    Claims, CompleteError, ExchangeError, Registered, RegisteredVariant, StartError, StartedClaim, Tokens,
};
use app::config::Urls;
use app::services::claims::{ClaimConfirmations, MayConfirm};
use axum::extract::State;
use domain::Clock;
use domain::claim::{ATTEMPT_SECONDS, AttemptRefusal, INTERVAL_SECONDS};
use domain::ids::Email;
use domain::secret::Secret;
use serde_json::{Value, json};
use store::Store;
use wire::Done;
use wire::agent_auth::{
    ASSERTION_GRANT, AgentClaim, ClaimRequest, ClaimResult, CompleteRequest, RegistrationResult, RegistrationVariant,
    Revoked, SCOPE_ACCOUNT, SCOPE_EVENTS, TokenResult,
};

use super::auth::{Caller, decision_refused, unauthorized};
use super::body::{self, FormBody, JsonBody, RawBody};
use super::client::ClientAddress;
use super::error::{ApiError, ApiResult, Code};
use super::limits::RateLimiters;

/// `POST /api/v1/agent-auth/identity`
pub async fn identity(
    State(claims): State<Claims>,
    State(limits): State<Arc<RateLimiters>>,
    State(urls): State<Arc<Urls>>,
    ClientAddress(address): ClientAddress,
    JsonBody(body): JsonBody<Value>,
) -> ApiResult {
    let login_hint = match body.get("type").map(Value::as_str) {
        Some(Some("anonymous")) => None,
        Some(Some("service_auth")) => {
            Some(email(&body, "login_hint")?.ok_or_else(|| ApiError::invalid("login_hint", "is required"))?)
        }
        Some(Some(_)) => return Err(Code::UnsupportedIdentityType.into()),
        Some(None) => return Err(ApiError::invalid("type", "must be a string")),
        None => return Err(ApiError::invalid("type", "is required: anonymous or service_auth")),
    };
    limits.registration(address)?;
    let Registered { id, claim_token, claim_token_expires, variant } =
        claims.register(login_hint, Some(address.to_string())).await?;
    let variant = match variant {
        RegisteredVariant::Anonymous { identity_assertion } => RegistrationVariant::Anonymous {
            identity_assertion: Secret::presented(identity_assertion),
            pre_claim_scopes: vec![SCOPE_EVENTS.to_owned()],
            claim_token_expires,
        },
        RegisteredVariant::ServiceAuth(started) => {
            RegistrationVariant::ServiceAuth { claim: agent_claim(&started, &urls) }
        }
    };
    let post_claim_scopes = vec![SCOPE_ACCOUNT.to_owned()];
    body::answer(&RegistrationResult { registration_id: id, claim_token, post_claim_scopes, variant })
}

/// `POST /api/v1/agent-auth/claim`
pub async fn claim(
    State(claims): State<Claims>,
    State(limits): State<Arc<RateLimiters>>,
    State(urls): State<Arc<Urls>>,
    ClientAddress(address): ClientAddress,
    JsonBody(body): JsonBody<Value>,
) -> ApiResult {
    let email = email(&body, "email")?;
    let ClaimRequest { claim_token, .. } = body::fitting(body)?;
    filled("claim_token", &claim_token)?;
    limits.claim_start(address)?;
    match claims.start(&claim_token, email).await? {
        Ok(started) => body::answer(&ClaimResult { claim: agent_claim(&started, &urls) }),
        Err(StartError::Refused(AttemptRefusal::Expired)) => Err(Code::ExpiredToken.into()),
        Err(StartError::Refused(AttemptRefusal::EmailMismatch)) => Err(Code::EmailMismatch.into()),
        Err(StartError::Refused(AttemptRefusal::Settled)) => {
            Err(ApiError::invalid("claim_token", "the registration is claimed or revoked already"))
        }
        Err(StartError::TooMany { retry_after }) => Err(ApiError::unavailable("too_many_claims", retry_after)),
    }
}

/// `POST /api/v1/agent-auth/claim/complete`
pub async fn complete(
    State(confirmations): State<ClaimConfirmations>,
    State(limits): State<Arc<RateLimiters>>,
    State(urls): State<Arc<Urls>>,
    caller: Caller,
    ClientAddress(address): ClientAddress,
    JsonBody(body): JsonBody<CompleteRequest>,
) -> ApiResult {
    let confirmer = confirmer(&caller, &confirmations, &urls)?;
    filled("claim_attempt_token", &body.claim_attempt_token)?;
    let code = body.user_code.expose().parse().map_err(|message: &str| ApiError::invalid("user_code", message))?;
    limits.code_guess(address)?;
    match confirmations.complete(&body.claim_attempt_token, code, confirmer).await? {
        Ok(()) => body::answer(&Done::OK),
        Err(CompleteError::Expired) => Err(Code::ExpiredToken.into()),
        Err(CompleteError::EmailMismatch) => Err(Code::EmailMismatch.into()),
        Err(CompleteError::WrongCode) => Err(Code::WrongCode.into()),
    }
}

/// `POST /api/v1/agent-auth/token`
pub async fn token(State(claims): State<Claims>, form: FormBody) -> ApiResult {
    let exchanged = match form.require("grant_type")? {
        grant if is_claim_grant(grant) => {
            claims.exchange_claim(&Secret::presented(form.require("claim_token")?)).await?
        }
        ASSERTION_GRANT => claims.exchange_assertion(form.require("assertion")?).await?,
        _ => return Err(Code::UnsupportedGrantType.into()),
    };
    match exchanged {
        Ok(tokens) => body::answer(&token_result(tokens)),
        Err(ExchangeError::Pending) => {
            Err(ApiError::new(Code::AuthorizationPending).with("interval", json!(INTERVAL_SECONDS)))
        }
        Err(ExchangeError::Expired) => Err(Code::ExpiredToken.into()),
        Err(ExchangeError::Invalid) => Err(Code::InvalidGrant.into()),
    }
}

/// `POST /api/v1/agent-auth/revoke`: always 200, for unknown tokens too (RFC 7009, section 2.2).
pub async fn revoke(State(store): State<Store>, State(clock): State<Clock>, RawBody(body): RawBody) -> ApiResult {
    let form: Vec<(String, String)> = serde_urlencoded::from_bytes(&body).unwrap_or_default();
    if let Some((_, token)) = form.into_iter().find(|(name, _)| name == "token") {
        let (hash, now) = (Secret::presented(token).hash(), clock.now());
        actors::detached(async move { store.token_revoke(&hash, now).await }).await??;
    }
    body::answer(&Revoked {})
}

/// `urn:<vendor>:agent-auth:grant-type:claim`; the vendor is not compared.
fn is_claim_grant(grant: &str) -> bool {
    let vendor = grant.strip_prefix("urn:").and_then(|rest| rest.strip_suffix(":agent-auth:grant-type:claim"));
    vendor.is_some_and(|vendor| !vendor.is_empty() && !vendor.contains(':'))
}

fn confirmer(caller: &Caller, confirmations: &ClaimConfirmations, urls: &Urls) -> Result<MayConfirm, ApiError> {
    let refused = |refusal| decision_refused(refusal, urls);
    let (email, (person, with)) = match (caller, caller.decides()) {
        (Caller::Session { email, .. } | Caller::Account { email, .. }, Some(decides)) => (email.clone(), decides),
        _ => return Err(unauthorized(Code::Unauthorized, true, urls)),
    };
    confirmations.may_decide(with).map_err(refused)?;
    let account = caller.require_account()?.clone();
    confirmations.confirmer(person, email, account, with).map_err(refused)
}

fn agent_claim(started: &StartedClaim, urls: &Urls) -> AgentClaim {
    AgentClaim {
        verification_uri: format!("{}/claim?attempt={}", urls.base, started.attempt_token.expose()),
        user_code: Secret::presented(started.user_code.expose()),
        expires_in: ATTEMPT_SECONDS.unsigned_abs(),
        interval: INTERVAL_SECONDS.into(),
    }
}

fn token_result(tokens: Tokens) -> TokenResult {
    let (identity_assertion, assertion_expires) = tokens.assertion.unzip();
    TokenResult {
        access_token: tokens.access_token,
        token_type: "Bearer".to_owned(),
        expires_in: tokens.expires_in,
        scope: tokens.scope.as_str().to_owned(),
        identity_assertion: identity_assertion.map(Secret::presented),
        assertion_expires,
    }
}

fn email(body: &Value, name: &str) -> Result<Option<Email>, ApiError> {
    match body.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => {
            text.parse().map(Some).map_err(|error| ApiError::invalid(name, format!("{error}")))
        }
        Some(_) => Err(ApiError::invalid(name, "must be a string")),
    }
}

fn filled(name: &str, value: &Secret) -> Result<(), ApiError> {
    if value.expose().is_empty() { Err(ApiError::invalid(name, "must not be empty")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_claim_grant_may_name_any_vendor() {
        for good in ["urn:svc:agent-auth:grant-type:claim", "urn:workos:agent-auth:grant-type:claim"] {
            assert!(is_claim_grant(good), "{good}");
        }
        for bad in [
            "",
            "urn::agent-auth:grant-type:claim",
            "urn:a:b:agent-auth:grant-type:claim",
            "agent-auth:grant-type:claim",
        ] {
            assert!(!is_claim_grant(bad), "{bad}");
        }
    }
}
