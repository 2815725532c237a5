//! One method per endpoint. The methods do not assert the status.

use bytes::Bytes;
use harness::event::Machine;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::World;
use crate::client::{CLAIM_GRANT, Credential, DEVICE_GRANT, JWT_GRANT, Response};

impl World {
    /// `POST /api/v1/agent-auth/identity`: registers an agent.
    pub async fn identity(&self, body: Value) -> Response {
        self.post("/api/v1/agent-auth/identity", &Credential::None, &body).await
    }

    /// `POST /api/v1/agent-auth/claim`: starts a claim attempt.
    pub async fn claim(&self, body: Value) -> Response {
        self.post("/api/v1/agent-auth/claim", &Credential::None, &body).await
    }

    /// `POST /api/v1/agent-auth/claim/complete`: a person confirms an attempt.
    pub async fn complete(&self, credential: &Credential, attempt: &str, code: &str) -> Response {
        let body = json!({ "claim_attempt_token": attempt, "user_code": code });
        self.post("/api/v1/agent-auth/claim/complete", credential, &body).await
    }

    /// `POST /api/v1/agent-auth/token`, with any form.
    pub async fn token(&self, pairs: &[(&str, &str)]) -> Response {
        self.form("/api/v1/agent-auth/token", pairs).await
    }

    /// `POST /api/v1/agent-auth/token` with a claim token.
    pub async fn token_by_claim(&self, claim_token: &str) -> Response {
        self.token(&[("grant_type", CLAIM_GRANT), ("claim_token", claim_token)]).await
    }

    /// `POST /api/v1/agent-auth/token` with an identity assertion.
    pub async fn token_by_assertion(&self, assertion: &str) -> Response {
        self.token(&[("grant_type", JWT_GRANT), ("assertion", assertion)]).await
    }

    /// `POST /api/v1/agent-auth/revoke`.
    pub async fn revoke(&self, token: &str) -> Response {
        self.form("/api/v1/agent-auth/revoke", &[("token", token)]).await
    }

    /// `POST /api/v1/events`.
    pub async fn event(&self, credential: impl Into<Credential>, event: &Value) -> Response {
        self.post("/api/v1/events", &credential.into(), event).await
    }

    /// `POST /api/v1/events`, with any bytes as the body.
    pub async fn event_bytes(&self, credential: impl Into<Credential>, body: impl Into<Bytes>) -> Response {
        let request = self.request(Method::POST, "/api/v1/events", &credential.into());
        self.send(request.header(CONTENT_TYPE, "application/json").body(body.into())).await
    }

    /// `GET /api/v1/activity`; `query` is empty or starts with `?`.
    pub async fn activity(&self, credential: impl Into<Credential>, query: &str) -> Response {
        self.get(&format!("/api/v1/activity{query}"), &credential.into()).await
    }

    /// `GET /api/v1/audit/verify`.
    pub async fn proof(&self, credential: impl Into<Credential>, event_id: &str) -> Response {
        self.get(&format!("/api/v1/audit/verify?event_id={event_id}"), &credential.into()).await
    }

    /// `POST /api/v1/device/code`: a computer asks to be attached.
    pub async fn device_code(&self, machine: &Machine) -> Response {
        let body = json!({ "user_cuid": machine.user_cuid, "machine_uuid": machine.uuid });
        self.post("/api/v1/device/code", &machine.into(), &body).await
    }

    /// `POST /api/v1/device/approve`.
    pub async fn device_approve(&self, credential: &Credential, user_code: &str) -> Response {
        self.post("/api/v1/device/approve", credential, &json!({ "user_code": user_code })).await
    }

    /// `POST /api/v1/device/deny`.
    pub async fn device_deny(&self, credential: &Credential, user_code: &str) -> Response {
        self.post("/api/v1/device/deny", credential, &json!({ "user_code": user_code })).await
    }

    /// `POST /api/v1/device/token`: a computer polls its device code.
    pub async fn device_token(&self, device_code: &str) -> Response {
        let body = json!({ "grant_type": DEVICE_GRANT, "device_code": device_code });
        self.post("/api/v1/device/token", &Credential::None, &body).await
    }
}
