//! Activity and audit (`docs/protocol/audit.md`). The statistics service defines these bodies; the types describe the
//! embedded service.

use domain::log_part::LogPart;
use domain::{Digest, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::{form, schema};

/// `GET /api/v1/activity`: the members that attache itself adds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ActivityPage {
    /// Held events, newest first; only on the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<Unclassified>)]
    pub unclassified: Option<Vec<Unclassified>>,
    /// Whether there are more held events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = bool)]
    pub unclassified_truncated: Option<bool>,
    /// Members of the statistics service.
    #[serde(flatten)]
    pub upstream: Map<String, Value>,
}

/// A held event (`docs/protocol/events.md#unclassified-entries`). Members that could not be read from its bytes are
/// `null`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Unclassified {
    /// Id of the event.
    #[schema(required = true)]
    pub event_id: Option<String>,
    /// Type of the event.
    #[schema(required = true)]
    pub event_type: Option<String>,
    /// Agent kind of the event.
    #[schema(required = true)]
    pub agent_id: Option<String>,
    /// Computer that sent it; for an event of an account, the computer in its scope.
    #[schema(required = true)]
    pub machine_uuid: Option<String>,
    /// The hold reason.
    pub reason: String,
    /// Time of receipt.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub received_at: Timestamp,
}

/// `GET /api/v1/audit/keys`: the keys that sign or have signed the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogKeys {
    /// The keys of the log.
    pub keys: Vec<LogKey>,
}

/// A key that signs checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogKey {
    /// Verifier key in the format of C2SP signed notes.
    pub vkey: String,
    /// Time from which the key signs.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub active_from: Timestamp,
    /// Time until which the key signed; `null` for the active key.
    #[serde(default, with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub retired_at: Option<Timestamp>,
    /// The part of the log that the key signs; absent for the first part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u16)]
    pub log: Option<LogPart>,
}

/// `GET /api/v1/audit/consistency`: proof that the tree of `from` leaves is a prefix of the tree of `to` leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsistencyProof {
    /// Size of the smaller tree.
    pub from: u64,
    /// Size of the larger tree.
    pub to: u64,
    /// Hashes of the proof (RFC 6962, section 2.1.2).
    pub proof: Vec<Digest>,
    /// The newest checkpoint, as a signed note.
    pub checkpoint: String,
}
