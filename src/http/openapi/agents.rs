//! Agents (`docs/protocol/agents.md`).

use serde_json::json;
use wire::Done;
use wire::agent_auth::{
    CLAIM_GRANT, ClaimRequest, ClaimResult, CompleteRequest, RegistrationRequest, RegistrationResult, RevokeRequest,
    Revoked, TokenRequest, TokenResult,
};

use super::operation::Operation;
use crate::http::error::Code;

pub(super) fn operations() -> Vec<Operation> {
    let claim = json!({
        "user_code": "482913",
        "expires_in": 1800,
        "verification_uri": "https://attache.example.com/claim?attempt=cat_5fK0c9Zb",
        "interval": 5,
    });
    let registered = json!({
        "registration_id": "019b76da-a800-7a67-8a14-94a3f41b0634",
        "registration_type": "service_auth",
        "claim_token": "clm_VxkQ2bTq",
        "post_claim_scopes": ["svc.account"],
        "claim": claim,
    });
    let tokens = json!({
        "access_token": "at_Jm3xT0bq",
        "token_type": "Bearer",
        "expires_in": 3600,
        "scope": "svc.account",
        "identity_assertion": "eyJhbGciOiJFZERTQSJ9.e30.c2ln",
        "assertion_expires": "2026-01-31T00:00:00.000Z",
    });
    Operation::tagged("Agents", vec![
        Operation::post("/api/v1/agent-auth/identity", "registerAgent", "Register an agent")
            .says("An anonymous agent gets an identity assertion, with which it may send events that are held until a \
                person claims it. With `service_auth` a certain person is asked at once: show them the link and the code.")
            .takes::<RegistrationRequest>(json!({ "type": "service_auth", "login_hint": "person@example.com" }))
            .answers::<RegistrationResult>(200, "The agent is registered.", registered)
            .refuses(&[Code::InvalidRequest, Code::UnsupportedIdentityType]),
        Operation::post("/api/v1/agent-auth/claim", "startClaim", "Start a claim")
            .says("A new link and code for the agent's person; those before it are void.")
            .takes::<ClaimRequest>(json!({ "claim_token": "clm_VxkQ2bTq", "email": "person@example.com" }))
            .answers::<ClaimResult>(200, "What to show to the person.", json!({ "claim": claim }))
            .refuses(&[Code::InvalidRequest, Code::ExpiredToken, Code::EmailMismatch]),
        Operation::post("/api/v1/agent-auth/claim/complete", "completeClaim", "Complete a claim")
            .says("A signed-in person types the agent's code. The page behind the link does this. A browser has to have signed in of \
                late: otherwise 401 with `reason: sign_in_again`. What an agent confirms ends when that agent is revoked.")
            .takes::<CompleteRequest>(json!({ "claim_attempt_token": "cat_5fK0c9Zb", "user_code": "482913" }))
            .answers::<Done>(200, "The agent acts for the person's account from now on.", json!({ "ok": true }))
            .refuses(&[Code::InvalidRequest, Code::ExpiredToken, Code::WrongCode, Code::EmailMismatch])
            .refuses(&[Code::AccountRequired]),
        Operation::post("/api/v1/agent-auth/token", "exchangeToken", "Exchange for an access token")
            .says("With the claim token, polled at the claim's interval until a person has completed the claim; or with \
                an identity assertion, at any time. The vendor in the claim grant is not compared.")
            .takes_form::<TokenRequest>(json!({ "grant_type": CLAIM_GRANT, "claim_token": "clm_VxkQ2bTq" }), true)
            .answers::<TokenResult>(200, "A token for the account, or, unclaimed, one for events alone.", tokens)
            .refuses(&[Code::InvalidRequest, Code::UnsupportedGrantType, Code::InvalidGrant, Code::ExpiredToken])
            .refuses(&[Code::AuthorizationPending]),
        Operation::post("/api/v1/agent-auth/revoke", "revokeToken", "Revoke an access token")
            .says("Answers the same whether the token worked before or not (RFC 7009).")
            .takes_form::<RevokeRequest>(json!({ "token": "at_Jm3xT0bq" }), false)
            .answers::<Revoked>(200, "The token does not work. The registration's assertion still does.", json!({})),
        Operation::delete("/api/v1/agents/{id}", "revokeAgent", "Revoke an agent")
            .says("Its tokens, assertions and claim token stop working for ever. It stays listed, with `revokedAt`. What it \
                confirmed ends with it: other agents are revoked, and computers detached. An agent may end itself alone.")
            .answers::<Done>(200, "It may do nothing any more.", json!({ "ok": true }))
            .refuses(&[Code::AccountRequired, Code::SessionRequired]),
    ])
}
