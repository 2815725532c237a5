//! An event with separate content, so that a consent level can be applied more than once.

use domain::consent::ConsentLevel;
use domain::ids::{EventId, SessionUuid};
use domain::lane::Lane;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An event of a hook. Everything that may be content is in `content`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookEvent {
    /// A type of the event registry.
    pub event_type: String,
    /// The lane of the type.
    pub lane: Lane,
    /// Id, if the payload distinguishes the event from its repetition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
    /// Time of the payload in epoch milliseconds, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ts_edge_ms: Option<i64>,
    /// Name of the working folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// The session of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_uuid: Option<SessionUuid>,
    /// Members for every level except `off`.
    pub payload: Map<String, Value>,
    /// Members for the level `full` only.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub content: Map<String, Value>,
}

/// An event as a consent level permits it, without position in a chain.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Draft {
    /// A type of the event registry.
    pub event_type: String,
    /// The lane of the type.
    pub lane: Lane,
    /// The level that the event declares.
    pub consent_level: ConsentLevel,
    /// Id, if the event has one.
    pub event_id: Option<EventId>,
    /// Time in epoch milliseconds, if known.
    pub ts_edge_ms: Option<i64>,
    /// Name of the working folder.
    pub project_id: Option<String>,
    /// The session of the tool.
    pub session_uuid: Option<SessionUuid>,
    /// The payload.
    pub payload: Map<String, Value>,
}

impl HookEvent {
    /// Removes members that a level does not permit; `None` at `off`.
    #[must_use]
    pub fn limited(self, level: ConsentLevel) -> Option<Self> {
        match level {
            ConsentLevel::Off => None,
            ConsentLevel::MetadataOnly => Some(Self { content: Map::new(), ..self }),
            ConsentLevel::Full => Some(self),
        }
    }

    /// The event as a level permits it; `None` at `off`. An event without content declares `metadata-only` at `full` too.
    pub fn at(self, level: ConsentLevel) -> Option<Draft> {
        let Self { event_type, lane, event_id, ts_edge_ms, project_id, session_uuid, mut payload, content } =
            self.limited(level)?;
        let consent_level = if content.is_empty() { ConsentLevel::MetadataOnly } else { ConsentLevel::Full };
        payload.extend(content);
        Some(Draft { event_type, lane, consent_level, event_id, ts_edge_ms, project_id, session_uuid, payload })
    }
}
