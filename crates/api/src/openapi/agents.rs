//! Operations of agents (`docs/protocol/agents.md`).

use serde_json::json;
use wire::Done;
use wire::account::LabelRequest;
use wire::agent_auth::{
    CLAIM_GRANT, ClaimRequest, ClaimResult, CompleteRequest, RegistrationRequest, RegistrationResult, RevokeRequest,
    Revoked, TokenRequest, TokenResult,
};

use super::operation::Operation;
use crate::error::Code;

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
            .says("An anonymous agent receives an identity assertion, with which it can send events that are held until a \
             person claims it. With `service_auth` the response contains a link and a code for one person: show them.")
            .takes::<RegistrationRequest>(json!({ "type": "service_auth", "login_hint": "person@example.com" }))
            .answers::<RegistrationResult>(200, "The agent is registered.", registered)
            .refuses(&[Code::InvalidRequest, Code::UnsupportedIdentityType]),
        Operation::post("/api/v1/agent-auth/claim", "startClaim", "Start a claim")
            .says("Creates a new link and code for the agent's person; earlier ones become invalid.")
            .takes::<ClaimRequest>(json!({ "claim_token": "clm_VxkQ2bTq", "email": "person@example.com" }))
            .answers::<ClaimResult>(200, "Link and code for the person.", json!({ "claim": claim }))
            .refuses(&[Code::InvalidRequest, Code::ExpiredToken, Code::EmailMismatch]),
        Operation::post("/api/v1/agent-auth/claim/complete", "completeClaim", "Complete a claim")
            .says("Confirms an agent with the code that it shows. The page behind the link sends this request. Requires a recent \
             sign-in of the browser: otherwise 401 with `reason: sign_in_again`. The confirmation of an agent ends when that agent is revoked.")
            .takes::<CompleteRequest>(json!({ "claim_attempt_token": "cat_5fK0c9Zb", "user_code": "482913" }))
            .answers::<Done>(200, "The agent acts for the person's account from now on.", json!({ "ok": true }))
            .refuses(&[Code::InvalidRequest, Code::ExpiredToken, Code::WrongCode, Code::EmailMismatch])
            .refuses(&[Code::AccountRequired]),
        Operation::post("/api/v1/agent-auth/token", "exchangeToken", "Exchange for an access token")
            .says("With a claim token: poll at the claim's interval until a person has completed the claim. With an identity \
             assertion: at any time. The vendor in the claim grant is not compared.")
            .takes_form::<TokenRequest>(json!({ "grant_type": CLAIM_GRANT, "claim_token": "clm_VxkQ2bTq" }), true)
            .answers::<TokenResult>(200, "A token for the account, or, for an unclaimed agent, for sending events only.", tokens)
            .refuses(&[Code::InvalidRequest, Code::UnsupportedGrantType, Code::InvalidGrant, Code::ExpiredToken])
            .refuses(&[Code::AuthorizationPending]),
        Operation::post("/api/v1/agent-auth/revoke", "revokeToken", "Revoke an access token")
            .says("The response does not depend on whether the token was valid (RFC 7009).")
            .takes_form::<RevokeRequest>(json!({ "token": "at_Jm3xT0bq" }), false)
            .answers::<Revoked>(200, "The token is revoked. The identity assertion stays valid.", json!({})),
        Operation::patch("/api/v1/agents/{id}", "nameAgent", "Name an agent")
            .says("The name is shown to the account only.")
            .takes::<LabelRequest>(json!({ "label": "Coding agent" }))
            .answers::<Done>(200, "The name is set or removed.", json!({ "ok": true }))
            .refuses(&[Code::InvalidRequest, Code::AccountRequired]),
        Operation::delete("/api/v1/agents/{id}", "revokeAgent", "Revoke an agent")
            .says("Revokes its tokens, assertions and claim token permanently. It stays listed, with `revokedAt`. The agents that it \
             confirmed are revoked too, and the computers that it approved are detached. An agent may revoke only itself.")
            .answers::<Done>(200, "The agent is revoked.", json!({ "ok": true }))
            .refuses(&[Code::AccountRequired, Code::SessionRequired]),
    ])
}
