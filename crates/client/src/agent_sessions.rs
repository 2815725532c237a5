//! Sessions of agents (`docs/protocol/sessions.md`).

use domain::ids::MachineUuid;
use serde::Serialize;
use uuid::Uuid;
use wire::agent_session::{AgentSessionPage, AgentSessionTimeline};
use wire::costs::Costs;

use crate::exchange::{ApiRequest, unreadable};
use crate::{Client, Error};

/// Optional parameters of [`Client::agent_sessions`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SessionQuery {
    /// Sessions per page, 1 to 200; default 50.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// `next_cursor` of the previous page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Earliest receipt of the newest event: a date-time, or milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The UTC day on which the newest event was received, `2026-01-31`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    /// The agent kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The computer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub computer: Option<MachineUuid>,
}

/// Optional parameters of [`Client::agent_session`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TimelineQuery {
    /// Events per page, 1 to 200; default 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// `next_cursor` of the previous page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl Client {
    /// `GET /api/v1/activity/sessions`: a page of sessions of agents, the one with the newest event first.
    pub async fn agent_sessions(&self, query: &SessionQuery) -> Result<AgentSessionPage, Error> {
        let url = self.base("/api/v1/activity/sessions");
        let query = serde_urlencoded::to_string(query).map_err(|source| unreadable(&url, source))?;
        self.ask(ApiRequest::get(format!("{url}?{query}"))).await
    }

    /// `GET /api/v1/usage/costs`: tokens and costs of models in the last days, 1 to 400.
    pub async fn costs(&self, days: u16) -> Result<Costs, Error> {
        self.ask(ApiRequest::get(self.base(&format!("/api/v1/usage/costs?days={days}")))).await
    }

    /// `GET /api/v1/activity/sessions/{id}`: a session, and a page of its events, newest first.
    pub async fn agent_session(&self, id: Uuid, query: &TimelineQuery) -> Result<AgentSessionTimeline, Error> {
        let url = self.base(&format!("/api/v1/activity/sessions/{id}"));
        let query = serde_urlencoded::to_string(query).map_err(|source| unreadable(&url, source))?;
        self.ask(ApiRequest::get(format!("{url}?{query}"))).await
    }
}
