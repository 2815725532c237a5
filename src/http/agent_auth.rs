//! Agents register, start claims, poll for tokens and give them back (specification, *Agent auth*; RFC 6749, 7009, 7523).

use actors::claim::{
    CompleteError, Confirmer, ExchangeError, Registered, RegisteredVariant, StartError, StartedClaim, Tokens,
};
use axum::extract::State;
use axum::response::IntoResponse;
use domain::claim::{ATTEMPT_SECONDS, INTERVAL_SECONDS, StartRefusal};
use domain::clock::date_time;
use domain::ids::Email;
use domain::secret::Secret;
use serde::Deserialize;
use serde_json::{Value, json};

use super::auth::Caller;
use super::body::{FormBody, JsonBody, RawBody};
use super::client::ClientAddress;
use super::error::{Answer, ApiError, Code};
use crate::house::House;

/// `POST /api/v1/agent-auth/identity`
pub async fn identity(
    State(house): State<House>,
    ClientAddress(address): ClientAddress,
    JsonBody(body): JsonBody<Value>,
) -> Answer {
    let login_hint = match body.get("type").map(Value::as_str) {
        Some(Some("anonymous")) => None,
        Some(Some("service_auth")) => {
            Some(email(&body, "login_hint")?.ok_or_else(|| ApiError::invalid("login_hint", "is required"))?)
        }
        Some(Some(_)) => return Err(Code::UnsupportedIdentityType.into()),
        Some(None) => return Err(ApiError::invalid("type", "must be a string")),
        None => return Err(ApiError::invalid("type", "is required: anonymous or service_auth")),
    };
    house.limits.registration(address)?;
    let Registered { id, claim_token, claim_token_expires, variant } =
        house.claims.register(login_hint, Some(address.to_string())).await?;
    let mut answer = json!({
        "registration_id": id,
        "claim_token": claim_token.expose(),
        "post_claim_scopes": ["svc.account"],
    });
    match variant {
        RegisteredVariant::Anonymous { identity_assertion } => {
            answer["registration_type"] = json!("anonymous");
            answer["identity_assertion"] = json!(identity_assertion);
            answer["pre_claim_scopes"] = json!(["svc.events"]);
            answer["claim_token_expires"] = json!(date_time(claim_token_expires));
        }
        RegisteredVariant::ServiceAuth(started) => {
            answer["registration_type"] = json!("service_auth");
            answer["claim"] = agent_claim(&started, &house);
        }
    }
    Ok(axum::Json(answer).into_response())
}

/// The body of `POST /api/v1/agent-auth/claim`.
#[derive(Debug, Deserialize)]
pub struct ClaimRequest {
    claim_token: String,
}

/// `POST /api/v1/agent-auth/claim`
pub async fn claim(
    State(house): State<House>,
    ClientAddress(address): ClientAddress,
    JsonBody(body): JsonBody<Value>,
) -> Answer {
    let email = email(&body, "email")?;
    let ClaimRequest { claim_token } = parsed(body)?;
    let claim_token = filled("claim_token", claim_token)?;
    house.limits.claim_start(address)?;
    match house.claims.start(&Secret::presented(claim_token), email).await? {
        Ok(started) => Ok(axum::Json(json!({ "claim": agent_claim(&started, &house) })).into_response()),
        Err(StartError::Refused(StartRefusal::Expired)) => Err(Code::ExpiredToken.into()),
        Err(StartError::Refused(StartRefusal::EmailMismatch)) => Err(Code::EmailMismatch.into()),
        Err(StartError::Refused(StartRefusal::Settled)) => {
            Err(ApiError::invalid("claim_token", "the registration is claimed or revoked already"))
        }
        Err(StartError::TooMany { retry_after }) => Err(ApiError::unavailable("too_many_claims", retry_after)),
    }
}

/// The body of `POST /api/v1/agent-auth/claim/complete`.
#[derive(Debug, Deserialize)]
pub struct CompleteRequest {
    claim_attempt_token: String,
    user_code: String,
}

/// `POST /api/v1/agent-auth/claim/complete`
pub async fn complete(
    State(house): State<House>,
    caller: Caller,
    ClientAddress(address): ClientAddress,
    JsonBody(body): JsonBody<CompleteRequest>,
) -> Answer {
    let confirmer = confirmer(&caller, &house)?;
    let token = filled("claim_attempt_token", body.claim_attempt_token)?;
    let code = body.user_code.parse().map_err(|message: &str| ApiError::invalid("user_code", message))?;
    house.limits.code_guess(address)?;
    match house.claims.complete(&Secret::presented(token), code, confirmer).await? {
        Ok(()) => Ok(axum::Json(json!({ "ok": true })).into_response()),
        Err(CompleteError::Expired) => Err(Code::ExpiredToken.into()),
        Err(CompleteError::EmailMismatch) => Err(Code::EmailMismatch.into()),
        Err(CompleteError::WrongCode) => Err(Code::WrongCode.into()),
    }
}

/// `POST /api/v1/agent-auth/token`
pub async fn token(State(house): State<House>, form: FormBody) -> Answer {
    let exchanged = match form.require("grant_type")? {
        grant if is_claim_grant(grant) => {
            house.claims.exchange_claim(&Secret::presented(form.require("claim_token")?)).await?
        }
        "urn:ietf:params:oauth:grant-type:jwt-bearer" => {
            house.claims.exchange_assertion(form.require("assertion")?).await?
        }
        _ => return Err(Code::UnsupportedGrantType.into()),
    };
    match exchanged {
        Ok(tokens) => Ok(axum::Json(token_result(tokens)).into_response()),
        Err(ExchangeError::Pending) => {
            Err(ApiError::new(Code::AuthorizationPending).with("interval", json!(INTERVAL_SECONDS)))
        }
        Err(ExchangeError::Expired) => Err(Code::ExpiredToken.into()),
        Err(ExchangeError::Invalid) => Err(Code::InvalidGrant.into()),
    }
}

/// `POST /api/v1/agent-auth/revoke`: always 200, whatever was sent (RFC 7009, section 2.2).
pub async fn revoke(State(house): State<House>, RawBody(body): RawBody) -> Answer {
    let form: Vec<(String, String)> = serde_urlencoded::from_bytes(&body).unwrap_or_default();
    if let Some((_, token)) = form.into_iter().find(|(name, _)| name == "token") {
        let (store, hash, now) = (house.store.clone(), Secret::presented(token).hash(), house.clock.now());
        actors::detached(async move { store.token_revoke(&hash, now).await }).await??;
    }
    Ok(axum::Json(json!({})).into_response())
}

/// `urn:<vendor>:agent-auth:grant-type:claim`; the vendor is not compared.
fn is_claim_grant(grant: &str) -> bool {
    let vendor = grant.strip_prefix("urn:").and_then(|rest| rest.strip_suffix(":agent-auth:grant-type:claim"));
    vendor.is_some_and(|vendor| !vendor.is_empty() && !vendor.contains(':'))
}

fn confirmer(caller: &Caller, house: &House) -> Result<Confirmer, ApiError> {
    let (person, email, via) = match caller {
        Caller::Session { person, email, .. } => (*person, email.clone(), "session"),
        Caller::Account { person, email, .. } if !house.settings.claims.require_session => {
            (*person, email.clone(), "account")
        }
        _ => return Err(super::auth::unauthorized(Code::Unauthorized, true, house)),
    };
    Ok(Confirmer { person, email, account: caller.require_account()?.clone(), via })
}

fn agent_claim(started: &StartedClaim, house: &House) -> Value {
    json!({
        "user_code": started.user_code.expose(),
        "expires_in": ATTEMPT_SECONDS,
        "verification_uri": format!("{}/claim?attempt={}", house.base_url, started.attempt_token.expose()),
        "interval": INTERVAL_SECONDS,
    })
}

fn token_result(tokens: Tokens) -> Value {
    let mut result = json!({
        "access_token": tokens.access_token.expose(),
        "token_type": "Bearer",
        "expires_in": tokens.expires_in,
        "scope": tokens.scope,
    });
    if let Some((assertion, expires)) = tokens.assertion {
        result["identity_assertion"] = json!(assertion);
        result["assertion_expires"] = json!(date_time(expires));
    }
    result
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

fn parsed<T: serde::de::DeserializeOwned>(body: Value) -> Result<T, ApiError> {
    serde_path_to_error::deserialize(body)
        .map_err(|error| ApiError::invalid(&error.path().to_string(), error.inner().to_string()))
}

fn filled(name: &str, value: String) -> Result<String, ApiError> {
    if value.is_empty() { Err(ApiError::invalid(name, "must not be empty")) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_vendor_may_stand_in_the_claim_grant() {
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
