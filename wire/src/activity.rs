//! Activity and audit (`docs/protocol/audit.md`). The bodies are the statistics service's; these are the shapes of the embedded one.

use domain::{Digest, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::{form, schema};

/// `GET /api/v1/activity`, as far as attache itself gives it a shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ActivityPage {
    /// Held events, newest first; on the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<Unclassified>)]
    pub unclassified: Option<Vec<Unclassified>>,
    /// Whether there are more of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = bool)]
    pub unclassified_truncated: Option<bool>,
    /// What the statistics service says.
    #[serde(flatten)]
    pub upstream: Map<String, Value>,
}

/// A held event (`docs/protocol/events.md#unclassified-entries`); `null` is what its bytes did not name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Unclassified {
    /// Its id.
    #[schema(required = true)]
    pub event_id: Option<String>,
    /// Its type.
    #[schema(required = true)]
    pub event_type: Option<String>,
    /// Its agent.
    #[schema(required = true)]
    pub agent_id: Option<String>,
    /// The computer that it speaks of.
    #[schema(required = true)]
    pub machine_uuid: Option<String>,
    /// Why it is held.
    pub reason: String,
    /// When it came.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub received_at: Timestamp,
}

/// `GET /api/v1/audit/keys`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogKeys {
    /// The log's keys.
    pub keys: Vec<LogKey>,
}

/// A key that signs checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogKey {
    /// The verifier key, as C2SP signed notes have it.
    pub vkey: String,
    /// Since when it signs.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub active_from: Timestamp,
    /// Until when it signed.
    #[serde(default, with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub retired_at: Option<Timestamp>,
}

/// `GET /api/v1/audit/consistency`: that the tree of `from` leaves is the beginning of the tree of `to` leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsistencyProof {
    /// Leaves of the smaller tree.
    pub from: u64,
    /// Leaves of the larger tree.
    pub to: u64,
    /// The hashes of RFC 6962, section 2.1.2.
    pub proof: Vec<Digest>,
    /// The newest checkpoint, a signed note.
    pub checkpoint: String,
}
