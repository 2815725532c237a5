//! Activity and audit (`docs/protocol/audit.md`). The bodies are the statistics service's; these are the shapes of the embedded one.

use domain::{Digest, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::{form, schema};

/// `GET /api/v1/activity`; only the members that attache itself adds have a fixed form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ActivityPage {
    /// Held events, newest first, at most 100; only on the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<Unclassified>)]
    pub unclassified: Option<Vec<Unclassified>>,
    /// Whether there are more held events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = bool)]
    pub unclassified_truncated: Option<bool>,
    /// Members of the statistics service's answer: `events` and `next_cursor` of the embedded one.
    #[serde(flatten)]
    pub upstream: Map<String, Value>,
}

/// A held event (`docs/protocol/events.md#unclassified-entries`); a member that its bytes do not contain is `null`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Unclassified {
    /// `event_id` of the envelope.
    #[schema(required = true)]
    pub event_id: Option<String>,
    /// `event_type` of the envelope.
    #[schema(required = true)]
    pub event_type: Option<String>,
    /// Agent kind, `scope.agent_id` of the envelope.
    #[schema(required = true)]
    pub agent_id: Option<String>,
    /// Computer in the scope of the envelope.
    #[schema(required = true)]
    pub machine_uuid: Option<String>,
    /// Hold reason, such as `malformed_envelope`.
    pub reason: String,
    /// Time at which the server received the event.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub received_at: Timestamp,
}

/// `GET /api/v1/audit/keys`: the keys that sign or have signed the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogKeys {
    /// The log's keys, of which one has `retired_at` null.
    pub keys: Vec<LogKey>,
}

/// A key that signs checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogKey {
    /// The verifier key in the form of C2SP signed notes.
    pub vkey: String,
    /// Time from which the key signs checkpoints.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub active_from: Timestamp,
    /// Time at which an epoch retired the key; `null` for the key in use.
    #[serde(default, with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub retired_at: Option<Timestamp>,
}

/// `GET /api/v1/audit/consistency`: proof that the tree of `from` leaves is the beginning of the tree of `to` leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsistencyProof {
    /// Size of the smaller tree in leaves.
    pub from: u64,
    /// Size of the larger tree in leaves.
    pub to: u64,
    /// The consistency proof of RFC 6962, section 2.1.2.
    pub proof: Vec<Digest>,
    /// The newest checkpoint as a signed note.
    pub checkpoint: String,
}
