//! Endpoints that an account is notified at (`docs/protocol/webhooks.md`).

use domain::ids::WebhookId;
use http::Method;
use wire::Done;
use wire::webhook::{Deliveries, WebhookChange, WebhookEntry, WebhookList, WebhookRequest, WebhookWithSecret};

use crate::exchange::ApiRequest;
use crate::{Client, Error};

impl Client {
    /// `GET /api/v1/webhooks`: the endpoints of the account, without their secrets.
    pub async fn webhooks(&self) -> Result<WebhookList, Error> {
        self.ask(ApiRequest::get(self.base("/api/v1/webhooks"))).await
    }

    /// `POST /api/v1/webhooks`. Requires a session.
    pub async fn webhook_create(&self, webhook: &WebhookRequest) -> Result<WebhookWithSecret, Error> {
        self.ask(ApiRequest::new(Method::POST, self.base("/api/v1/webhooks")).json(webhook)?).await
    }

    /// `PATCH /api/v1/webhooks/{id}`: changes an endpoint. Requires a session.
    pub async fn webhook_change(&self, webhook: WebhookId, change: &WebhookChange) -> Result<WebhookEntry, Error> {
        let path = format!("/api/v1/webhooks/{webhook}");
        self.ask(ApiRequest::new(Method::PATCH, self.base(&path)).json(change)?).await
    }

    /// `POST /api/v1/webhooks/{id}/secret`: replaces the secret of an endpoint. Requires a session.
    pub async fn webhook_rotate(&self, webhook: WebhookId) -> Result<WebhookWithSecret, Error> {
        self.ask(ApiRequest::new(Method::POST, self.base(&format!("/api/v1/webhooks/{webhook}/secret")))).await
    }

    /// `DELETE /api/v1/webhooks/{id}`: deletes an endpoint. Requires a session.
    pub async fn webhook_delete(&self, webhook: WebhookId) -> Result<Done, Error> {
        self.ask(ApiRequest::new(Method::DELETE, self.base(&format!("/api/v1/webhooks/{webhook}")))).await
    }

    /// `POST /api/v1/webhooks/{id}/test`: sends a test to an endpoint. Requires a session.
    pub async fn webhook_test(&self, webhook: WebhookId) -> Result<Done, Error> {
        self.ask(ApiRequest::new(Method::POST, self.base(&format!("/api/v1/webhooks/{webhook}/test")))).await
    }

    /// `GET /api/v1/webhooks/{id}/deliveries`: the newest deliveries to an endpoint.
    pub async fn webhook_deliveries(&self, webhook: WebhookId) -> Result<Deliveries, Error> {
        self.ask(ApiRequest::get(self.base(&format!("/api/v1/webhooks/{webhook}/deliveries")))).await
    }
}
