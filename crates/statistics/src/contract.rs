//! The contract between attache and a statistics service, embedded or external (`docs/decisions/0010-statistics-service.md`).
//!
//! Requests come from the HTTP edge and the actors; [`crate::log`] and [`crate::client`] answer them. The response of the
//! service to a sender is passed on byte for byte ([`Passed`]).

use bytes::Bytes;
use domain::Digest;
use domain::chain::{ChainKey, Position};
use domain::consent::ConsentLevel;
use domain::envelope::{Lane, Sealed};
use domain::ids::{EventId, MachineUuid, ReceiptId, UserAccountId, UserCuid};
use domain::log_part::LogPart;
use domain::recorder::Recorders;
use domain::registry::Tone;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Serialize;

/// Header that names the account of a request.
pub const ACCOUNT: &str = "attache-account";
/// Header that names the identities of a request, separated by commas.
pub const IDENTITY: &str = "attache-identity";
/// Header that names the computer of a request.
pub const MACHINE: &str = "attache-machine";

/// The subject of a request, derived only from the caller's credential.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordScope {
    /// The account of the caller, if it has one.
    pub account: Option<UserAccountId>,
    /// Identities of the account, or the identity of the computer.
    pub identities: Vec<UserCuid>,
    /// The computer of the caller, if the caller is a computer.
    pub machine: Option<MachineUuid>,
    /// Recorders with events that a read may return; unused by submissions.
    pub shown: Recorders,
}

/// An event that may be forwarded to the statistics service.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The exact bytes that the sender sent.
    pub body: Bytes,
    /// Canonical bytes: RFC 8785 without `hash_chain.self`.
    pub canonical: Bytes,
    /// SHA-256 of the canonical bytes; equals `hash_chain.self`.
    pub seal: Digest,
    /// Event id, chosen by the sender.
    pub event_id: EventId,
    /// Type, from the registry of events.
    pub event_type: String,
    /// Lane of the event, by its type.
    pub lane: Lane,
    /// Agent kind, one of eight.
    pub agent_id: String,
    /// UUID of the computer that recorded the event.
    pub machine: MachineUuid,
    /// Identity of the event.
    pub identity: UserCuid,
    /// Time of the sender's clock, in milliseconds since 1970.
    pub ts_edge_ms: i64,
    /// Consent level that the sender states.
    pub consent_level: ConsentLevel,
    /// Whether the sender redacted the payload.
    pub redacted: bool,
    /// Position in the chain that the event claims.
    pub position: Position,
    /// Subject that the event is sent for.
    pub scope: RecordScope,
    /// The part of the embedded log with the chains of the computer.
    pub part: LogPart,
}

impl Submission {
    /// Creates the submission of an event that was parsed from `body`.
    pub fn new(body: Bytes, sealed: Sealed, scope: RecordScope) -> Self {
        let Sealed { envelope, canonical, seal } = sealed;
        Self {
            body,
            canonical: canonical.into(),
            seal,
            event_id: envelope.event_id,
            lane: envelope.lane,
            position: envelope.position(),
            machine: envelope.scope.machine_id,
            identity: envelope.scope.user_id,
            agent_id: envelope.scope.agent_id,
            event_type: envelope.event_type,
            ts_edge_ms: envelope.ts_edge_ms,
            consent_level: envelope.consent_level,
            redacted: envelope.redacted,
            scope,
            part: LogPart::FIRST,
        }
    }

    /// The submission for another part of the log, which has the event's chain.
    #[must_use]
    pub fn in_part(self, part: LogPart) -> Self {
        Self { part, ..self }
    }

    /// Chain of the event.
    pub fn chain_key(&self) -> ChainKey {
        ChainKey { machine_id: self.machine, agent_id: self.agent_id.clone() }
    }
}

/// The result of a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubmitOutcome {
    /// Accepted, now or earlier: the service counts the event once.
    Receipt(ReceiptId),
    /// 409, 422, 424 or 429: passed on to the sender unchanged.
    PassThrough(Passed),
    /// Any other 4xx: the event cannot be forwarded unchanged, so the caller holds it as `upstream_refused`.
    Refused {
        /// Status of the response.
        status: StatusCode,
        /// The service's message, shortened, for the operator and the sender's warning.
        detail: String,
    },
    /// Whether the event was accepted is unknown; the sender may send it again.
    Unavailable(Unavailable),
}

/// Why there is no response to pass on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The connection failed.
    #[error("the statistics service cannot be reached: {0}")]
    Connect(String),
    /// The service did not answer within the deadline.
    #[error("the statistics service did not answer in time")]
    Timeout,
    /// The connection broke before the response was complete.
    #[error("the connection to the statistics service broke: {0}")]
    Broken(String),
    /// The response exceeds `body_bytes_max`.
    #[error("the answer of the statistics service is too large")]
    TooLarge,
    /// A status that reports a failure of the service, or one that the contract does not define.
    #[error("the statistics service answered {status}")]
    Status {
        /// HTTP status of the response.
        status: StatusCode,
        /// `Retry-After` header of the response.
        retry_after: Option<HeaderValue>,
    },
    /// A 2xx response without a receipt.
    #[error("the statistics service answered {0} without a receipt")]
    Garbage(StatusCode),
    /// 401, 403 or 407: the configured token is wrong.
    #[error("the statistics service does not accept our credential: it answered {0}")]
    Credential(StatusCode),
    /// The circuit breaker is open, so no request was sent.
    #[error("the statistics service has failed repeatedly and is left alone for a while")]
    BreakerOpen,
    /// Another process is appending to the chain of the event; nothing was written.
    #[error("another node is appending to the same chain")]
    ChainBusy,
    /// The database of the embedded service failed.
    #[error("the log cannot answer: {0}")]
    Log(String),
}

/// A response that is passed on: status, Content-Type, Retry-After and body unchanged; no other header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// HTTP status of the response.
    pub status: StatusCode,
    /// `Content-Type` header.
    pub content_type: Option<HeaderValue>,
    /// `Retry-After` header.
    pub retry_after: Option<HeaderValue>,
    /// Body of the response, byte for byte.
    pub body: Bytes,
}

impl Passed {
    /// A JSON response of the embedded service.
    pub fn json(status: StatusCode, body: &impl Serialize) -> Self {
        // These bodies are plain values, which always have a JSON form.
        let body = serde_json::to_vec(body).unwrap_or_default();
        Self::with_body(status, "application/json", body)
    }

    /// A JSON response of the embedded service, already serialised.
    pub fn written(status: StatusCode, body: Vec<u8>) -> Self {
        Self::with_body(status, "application/json", body)
    }

    /// A plain text response of the embedded service.
    pub fn text(body: String) -> Self {
        Self::with_body(StatusCode::OK, "text/plain; charset=utf-8", body)
    }

    /// A response of bytes of the embedded service.
    pub fn octets(body: Vec<u8>) -> Self {
        Self::with_body(StatusCode::OK, "application/octet-stream", body)
    }

    /// Extracts the parts of a response that are passed on.
    pub fn from_parts(status: StatusCode, headers: &HeaderMap, body: Bytes) -> Self {
        let header = |name| headers.get(name).cloned();
        Self { status, content_type: header(header::CONTENT_TYPE), retry_after: header(header::RETRY_AFTER), body }
    }

    fn with_body(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        let content_type = Some(HeaderValue::from_static(content_type));
        Self { status, content_type, retry_after: None, body: body.into() }
    }
}

/// The query of `GET /v1/activity`, each parameter as the caller sent it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActivityQuery {
    /// Maximum number of entries, 1..=500; 100 when absent.
    pub limit: Option<u16>,
    /// `next_cursor` of an earlier page.
    pub cursor: Option<String>,
    /// RFC 3339 date-time or epoch milliseconds, inclusive.
    pub since: Option<String>,
    /// Restricts the page to a lane; all lanes if absent.
    pub lane: Option<Lane>,
    /// Restricts the page to one recorder of the scope. The embedded log only: the contract has no such parameter.
    pub machine: Option<MachineUuid>,
    /// Restricts the page to an agent kind. The embedded log only.
    pub agent: Option<String>,
    /// Exclusive end of the time of receipt, in milliseconds since 1970. The embedded log only.
    pub until: Option<i64>,
    /// Leaves out entries of the page that was read. The embedded log only.
    pub entries: Option<EntryFilter>,
    /// Reads every body: waits while the archive is away, fails if it stays away, and marks an entry without its body. Otherwise such an entry
    /// has the sentence of its type. The embedded log only.
    pub is_complete: bool,
}

/// Leaves out entries of a page after it was read: no index helps to find them. The page then has fewer entries than `limit`, and the
/// members `searched`, the number of events that were read, `oldest_ms`, the time of receipt of the last one in milliseconds since 1970,
/// and `unread`, the number of events with a payload that was too long to compare.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryFilter {
    /// Only events of this type.
    pub event_type: Option<String>,
    /// Only events with a text.
    pub text: Option<TextFilter>,
    /// Only events with a sentence of this tone.
    pub tone: Option<Tone>,
}

/// A text in the columns, the sentence or the payload of an event, or in the name of its computer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextFilter {
    /// The text in lower case; compared without case.
    pub text: String,
    /// The computers with a name that contains the text.
    pub machines: Vec<MachineUuid>,
}
