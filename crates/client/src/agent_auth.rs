//! Registration and claims of agents, and their tokens (`docs/protocol/agents.md`).

use domain::secret::Secret;
use http::Method;
use wire::Done;
use wire::agent_auth::{
    ASSERTION_GRANT, AgentClaim, CLAIM_GRANT, ClaimRequest, ClaimResult, CompleteRequest, RegistrationRequest,
    RegistrationResult, RevokeRequest, Revoked, TokenRequest, TokenResult,
};

use crate::exchange::ApiRequest;
use crate::{Client, Error};

impl Client {
    /// Registers an agent that any person can claim.
    pub async fn register_anonymous(&self) -> Result<RegistrationResult, Error> {
        self.register(&RegistrationRequest::Anonymous).await
    }

    /// Registers an agent for one person. The response contains the claim to show to them.
    pub async fn register_for(&self, email: &str) -> Result<RegistrationResult, Error> {
        self.register(&RegistrationRequest::ServiceAuth { login_hint: email.to_owned() }).await
    }

    /// `POST /api/v1/agent-auth/identity`: registers an agent; needs no credential.
    pub async fn register(&self, request: &RegistrationRequest) -> Result<RegistrationResult, Error> {
        self.ask(ApiRequest::new(Method::POST, self.base("/api/v1/agent-auth/identity")).json(request)?).await
    }

    /// `POST /api/v1/agent-auth/claim`: returns a new link and code, and invalidates earlier ones.
    pub async fn claim(&self, claim_token: &Secret, email: Option<&str>) -> Result<AgentClaim, Error> {
        let body = ClaimRequest { claim_token: claim_token.clone(), email: email.map(str::to_owned) };
        let ask = ApiRequest::new(Method::POST, self.base("/api/v1/agent-auth/claim")).json(&body)?;
        Ok(self.ask::<ClaimResult>(ask).await?.claim)
    }

    /// `POST /api/v1/agent-auth/claim/complete`. Requires a session or an account token.
    pub async fn complete(&self, claim_attempt_token: &Secret, user_code: &Secret) -> Result<Done, Error> {
        let body = CompleteRequest { claim_attempt_token: claim_attempt_token.clone(), user_code: user_code.clone() };
        self.ask(ApiRequest::new(Method::POST, self.base("/api/v1/agent-auth/claim/complete")).json(&body)?).await
    }

    /// `POST /api/v1/agent-auth/token` with the claim grant, without polling; see [`Client::claimed`].
    pub async fn token_by_claim(&self, claim_token: &Secret) -> Result<TokenResult, Error> {
        let claim_token = Some(claim_token.clone());
        self.token(&TokenRequest { grant_type: CLAIM_GRANT.to_owned(), claim_token, assertion: None }).await
    }

    /// `POST /api/v1/agent-auth/token` with an identity assertion (RFC 7523).
    pub async fn token_by_assertion(&self, assertion: &Secret) -> Result<TokenResult, Error> {
        let assertion = Some(assertion.clone());
        self.token(&TokenRequest { grant_type: ASSERTION_GRANT.to_owned(), claim_token: None, assertion }).await
    }

    /// `POST /api/v1/agent-auth/revoke` (RFC 7009)
    pub async fn revoke(&self, token: &Secret) -> Result<Revoked, Error> {
        let body = RevokeRequest { token: Some(token.clone()), token_type_hint: None };
        self.ask(ApiRequest::new(Method::POST, self.base("/api/v1/agent-auth/revoke")).form(&body)?.freely()).await
    }

    async fn token(&self, body: &TokenRequest) -> Result<TokenResult, Error> {
        self.ask(ApiRequest::new(Method::POST, self.base("/api/v1/agent-auth/token")).form(body)?.freely()).await
    }
}
