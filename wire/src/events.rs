//! Events and what becomes of them (`docs/protocol/events.md#event-envelope` and `docs/protocol/events.md`). The envelope itself is
//! [`domain::envelope`], since its bytes are what is hashed.

use domain::chain::Position;
use domain::ids::ReceiptId;
use domain::lane::Lane;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::schema;

/// 202: what became of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum SubmitResult {
    /// It was forwarded; the same event gets the same receipt, always.
    Forwarded {
        /// The statistics service's receipt.
        #[schema(value_type = schema::UuidV7)]
        receipt_id: ReceiptId,
    },
    /// It was retained; sending it again, right this time, settles it.
    Held {
        /// Always `true`.
        #[schema(schema_with = schema::yes)]
        held: bool,
        /// The reason and the first offending path.
        warning: String,
    },
}

/// 409 and 422 of the embedded statistics service: the event is not the chain's next one (`docs/decisions/0016-chain-position.md` and `docs/decisions/0017-event-registry.md`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChainRefusal {
    /// `chain_conflict`, `chain_broken` or `event_id_conflict`.
    pub error: String,
    /// What would continue the chain; absent when the event's id is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::Position)]
    pub expected: Option<Position>,
    /// What was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::Position)]
    pub received: Option<Position>,
}

/// `GET /api/v1/events/registry`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Registry {
    /// The event types.
    pub event_types: Vec<EventType>,
}

/// A registered event type (`docs/decisions/0016-chain-position.md` and `docs/decisions/0017-event-registry.md`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventType {
    /// Its name.
    pub event_type: String,
    /// The lane that its events must name.
    #[schema(value_type = schema::Lane)]
    pub lane: Lane,
    /// Members of the payload that are content: only at the level `full`.
    pub content_fields: Vec<String>,
    /// JSON Schema of the payload.
    pub payload_schema: Value,
}
