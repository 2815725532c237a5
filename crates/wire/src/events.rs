//! Outcomes of events (`docs/protocol/events.md#event-envelope` and `docs/protocol/events.md`). The envelope is
//! [`domain::envelope`], because its exact bytes are hashed.

use domain::chain::Position;
use domain::ids::ReceiptId;
use domain::lane::Lane;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::schema;

/// 202: outcome of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum SubmitResult {
    /// The event was forwarded. The same event always gets the same receipt.
    Forwarded {
        /// Receipt of the statistics service.
        #[schema(value_type = schema::UuidV7)]
        receipt_id: ReceiptId,
    },
    /// The event is held. Sending a corrected event with the same id settles it.
    Held {
        /// Always `true`.
        #[schema(schema_with = schema::yes)]
        held: bool,
        /// Hold reason and the first invalid path.
        warning: String,
    },
}

/// 409 and 422 of the embedded statistics service: the event does not continue its chain
/// (`docs/decisions/0006-events-and-chains.md`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChainRefusal {
    /// `chain_conflict`, `chain_broken` or `event_id_conflict`.
    pub error: String,
    /// Position that would continue the chain; absent if the event id is already used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::Position)]
    pub expected: Option<Position>,
    /// Position of the event.
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

/// A registered event type (`docs/decisions/0006-events-and-chains.md`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventType {
    /// Name of the type.
    pub event_type: String,
    /// Lane that its events must name.
    #[schema(value_type = schema::Lane)]
    pub lane: Lane,
    /// Members of the payload that require the level `full`.
    pub content_fields: Vec<String>,
    /// JSON Schema of the payload.
    pub payload_schema: Value,
}
