//! Results of events, and the event registry (`docs/protocol/events.md`). The envelope itself is [`domain::envelope`], since its exact
//! bytes are hashed.

use domain::chain::Position;
use domain::ids::ReceiptId;
use domain::lane::Lane;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::schema;

/// 202: the event was forwarded, or is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum SubmitResult {
    /// The event was forwarded. Sending the same event again returns the same receipt.
    Forwarded {
        /// Receipt id of the statistics service.
        #[schema(value_type = schema::UuidV7)]
        receipt_id: ReceiptId,
    },
    /// The event is stored, but not forwarded. Sending it again without the fault settles it.
    Held {
        /// Always `true`.
        #[schema(schema_with = schema::yes)]
        held: bool,
        /// Hold reason, place and detail of the fault.
        warning: String,
    },
}

/// 409 and 422 of the embedded statistics service: the event does not continue its chain (`docs/decisions/0016-chain-position.md`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChainRefusal {
    /// `chain_conflict`, `chain_broken` or `event_id_conflict`.
    pub error: String,
    /// The position that would continue the chain; absent with `event_id_conflict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::Position)]
    pub expected: Option<Position>,
    /// The position that the event claims; absent with `event_id_conflict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::Position)]
    pub received: Option<Position>,
}

/// `GET /api/v1/events/registry`: the types of events that the server forwards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Registry {
    /// The registered event types.
    pub event_types: Vec<EventType>,
}

/// A registered event type (`docs/decisions/0017-event-registry.md`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventType {
    /// Name of the type, such as `memory.stored`.
    pub event_type: String,
    /// The lane that events of this type must name.
    #[schema(value_type = schema::Lane)]
    pub lane: Lane,
    /// Members of the payload that only the level `full` permits.
    pub content_fields: Vec<String>,
    /// JSON Schema of the payload.
    pub payload_schema: Value,
}
