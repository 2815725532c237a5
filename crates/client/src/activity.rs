//! Activity and audit (`docs/protocol/audit.md`).

use bytes::Bytes;
use domain::checkpoint::base_of;
use domain::ids::EventId;
use domain::lane::Lane;
use domain::log_part::LogPart;
use serde::Serialize;
use wire::activity::{ActivityPage, ConsistencyProof, LogKey, LogKeys};

use crate::exchange::{ApiRequest, unreadable};
use crate::{Client, Error};

/// Optional parameters of [`Client::activity`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ActivityQuery {
    /// Entries per page, 1 to 500; default 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// `next_cursor` of the previous page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Earliest time: a date-time, or milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Lane to filter by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<Lane>,
}

impl Client {
    /// `GET /api/v1/activity`: a page of recorded events, newest first; the first page also lists held events.
    pub async fn activity(&self, query: &ActivityQuery) -> Result<ActivityPage, Error> {
        let url = self.base("/api/v1/activity");
        let query = serde_urlencoded::to_string(query).map_err(|source| unreadable(&url, source))?;
        self.ask(ApiRequest::get(format!("{url}?{query}"))).await
    }

    /// `GET /api/v1/audit/verify`: the unparsed proof, for storage and verification.
    pub async fn proof(&self, event: EventId) -> Result<Bytes, Error> {
        self.ask_bytes(ApiRequest::get(self.base(&format!("/api/v1/audit/verify?event_id={event}")))).await
    }

    /// `GET /api/v1/audit/keys`: the verifier keys of the log.
    pub async fn log_keys(&self) -> Result<LogKeys, Error> {
        self.ask(ApiRequest::get(self.base("/api/v1/audit/keys"))).await
    }

    /// The part of the log that has this origin. Asks for the keys if the origin has the form of a further part's.
    pub async fn log_part(&self, origin: &str) -> Result<LogPart, Error> {
        let by_form = LogPart::by_form(origin);
        if by_form.is_first() {
            return Ok(by_form);
        }
        let keys = self.log_keys().await?.keys;
        let named = |key: &&LogKey| key.vkey.split('+').next().is_some_and(|name| base_of(name) == base_of(origin));
        // The server does not list the key of an unavailable part.
        Ok(keys.iter().find(named).map_or(by_form, |key| key.log.unwrap_or(LogPart::FIRST)))
    }

    /// `GET /api/v1/audit/consistency`: the proof that the tree of `to` leaves extends the tree of `from` leaves.
    pub async fn consistency(&self, part: LogPart, from: u64, to: u64) -> Result<ConsistencyProof, Error> {
        let log = if part.is_first() { String::new() } else { format!("&log={part}") };
        self.ask(ApiRequest::get(self.base(&format!("/api/v1/audit/consistency?from={from}&to={to}{log}")))).await
    }

    /// `GET /log/tile/<path>`, or `GET /log/p<N>/tile/<path>` of a further part: hashes of the signed tree; `path` is `<L>/<N>[.p/<W>]` of
    /// C2SP `tlog-tiles`.
    pub async fn tile(&self, part: LogPart, path: &str) -> Result<Bytes, Error> {
        let log = if part.is_first() { "/log".to_owned() } else { format!("/log/p{part}") };
        self.ask_bytes(ApiRequest::get(self.base(&format!("{log}/tile/{path}")))).await
    }

    /// `GET /api/v1/audit/checkpoint`: a C2SP note.
    pub async fn checkpoint(&self, part: LogPart) -> Result<Bytes, Error> {
        let log = if part.is_first() { String::new() } else { format!("?log={part}") };
        self.ask_bytes(ApiRequest::get(self.base(&format!("/api/v1/audit/checkpoint{log}")))).await
    }
}
