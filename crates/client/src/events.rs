//! Submission of events, and their registry (`docs/protocol/events.md`).

use bytes::Bytes;
use http::Method;
use wire::events::{Registry, SubmitResult};

use crate::exchange::ApiRequest;
use crate::{Client, Error};

impl Client {
    /// `POST /api/v1/events` with exactly these bytes. Retries until there is a response, because events are idempotent
    /// by their id.
    pub async fn event_submit(&self, event: impl Into<Bytes>) -> Result<SubmitResult, Error> {
        self.ask(ApiRequest::new(Method::POST, self.base("/api/v1/events")).bytes(event.into()).freely()).await
    }

    /// `GET /api/v1/events/registry`: the event types that the server forwards.
    pub async fn event_registry(&self) -> Result<Registry, Error> {
        self.ask(ApiRequest::get(self.base("/api/v1/events/registry"))).await
    }
}
