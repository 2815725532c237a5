//! Activity and audit (`docs/protocol/audit.md`).

use bytes::Bytes;
use domain::ids::EventId;
use domain::lane::Lane;
use serde::Serialize;
use wire::activity::{ActivityPage, ConsistencyProof, LogKeys};

use crate::exchange::{Ask, unreadable};
use crate::{Client, Error};

/// Query of [`Client::activity`]; every parameter is optional.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ActivityQuery {
    /// Maximum number of entries, 1 to 500; 100 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// `next_cursor` of the page before; the first page when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Inclusive lower bound: an RFC 3339 date-time or milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Only events of this lane; all six lanes when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<Lane>,
}

impl Client {
    /// `GET /api/v1/activity`: a page of recorded events, newest first; the first page also lists held events.
    pub async fn activity(&self, query: &ActivityQuery) -> Result<ActivityPage, Error> {
        let url = self.base("/api/v1/activity");
        let query = serde_urlencoded::to_string(query).map_err(|source| unreadable(&url, source))?;
        self.ask(Ask::get(format!("{url}?{query}"))).await
    }

    /// `GET /api/v1/audit/verify`: the exact bytes of the proof, to be stored and verified.
    pub async fn proof(&self, event: EventId) -> Result<Bytes, Error> {
        self.ask_bytes(Ask::get(self.base(&format!("/api/v1/audit/verify?event_id={event}")))).await
    }

    /// `GET /api/v1/audit/keys`: the verifier keys of the log.
    pub async fn log_keys(&self) -> Result<LogKeys, Error> {
        self.ask(Ask::get(self.base("/api/v1/audit/keys"))).await
    }

    /// `GET /api/v1/audit/consistency`: the proof that the tree of `to` leaves begins with the tree of `from` leaves.
    pub async fn consistency(&self, from: u64, to: u64) -> Result<ConsistencyProof, Error> {
        self.ask(Ask::get(self.base(&format!("/api/v1/audit/consistency?from={from}&to={to}")))).await
    }

    /// `GET /api/v1/audit/checkpoint`: a C2SP note.
    pub async fn checkpoint(&self) -> Result<Bytes, Error> {
        self.ask_bytes(Ask::get(self.base("/api/v1/audit/checkpoint"))).await
    }
}
