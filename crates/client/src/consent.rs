//! Reads and writes of consent levels (`docs/protocol/consent.md`).

use domain::ids::MachineUuid;
use domain::lane::Lane;
use http::Method;
use serde::Serialize;
use wire::consent::{ConsentAnswer, ConsentRequest, ConsentWritten, PauseRequest, PauseResult};

use crate::exchange::{ApiRequest, unreadable};
use crate::{Client, Error};

#[derive(Debug, Serialize)]
struct Query {
    #[serde(skip_serializing_if = "Option::is_none")]
    machine_uuid: Option<MachineUuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lane: Option<Lane>,
}

impl Client {
    /// `GET /api/v1/consent`: the effective level of a computer, or all records of the account if `machine` is `None`.
    pub async fn consent(&self, machine: Option<MachineUuid>, lane: Option<Lane>) -> Result<ConsentAnswer, Error> {
        let url = self.base("/api/v1/consent");
        let query = serde_urlencoded::to_string(Query { machine_uuid: machine, lane });
        let query = query.map_err(|source| unreadable(&url, source))?;
        self.ask(ApiRequest::get(format!("{url}?{query}"))).await
    }

    /// `POST /api/v1/consent/pause`: pauses recording, on one computer or on all.
    pub async fn recording_pause(&self, request: &PauseRequest) -> Result<PauseResult, Error> {
        self.ask(ApiRequest::new(Method::POST, self.base("/api/v1/consent/pause")).json(request)?).await
    }

    /// `DELETE /api/v1/consent/pause`: ends a pause early. Only a session may end the pause of another party.
    pub async fn recording_continue(&self, machine: Option<MachineUuid>) -> Result<PauseResult, Error> {
        let url = self.base("/api/v1/consent/pause");
        let query = serde_urlencoded::to_string(Query { machine_uuid: machine, lane: None });
        let query = query.map_err(|source| unreadable(&url, source))?;
        self.ask(ApiRequest::new(Method::DELETE, format!("{url}?{query}"))).await
    }

    /// `POST /api/v1/consent`. After the error `consent_audit_forward_failed`, the level is stored.
    pub async fn consent_set(&self, request: &ConsentRequest) -> Result<ConsentWritten, Error> {
        self.ask(ApiRequest::new(Method::POST, self.base("/api/v1/consent")).json(request)?).await
    }
}
