//! Sessions as readers get them.

use domain::agent_session::SessionCounts;
use domain::ids::{EventId, MachineUuid, SessionUuid};
use domain::log_part::LogPart;
use uuid::Uuid;

/// A session of an agent, with the sums over its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedSession {
    /// Number of its row, for the statements that read its events.
    pub(super) number: i64,
    /// The part of the log that has it.
    pub(crate) part: LogPart,
    /// Id, from [`domain::agent_session::session_id`].
    pub id: Uuid,
    /// The computer that recorded it.
    pub machine: MachineUuid,
    /// Agent kind.
    pub agent: String,
    /// `scope.session_uuid` of its events.
    pub session: SessionUuid,
    /// `scope.project_id` of the first event that has one.
    pub project: Option<String>,
    /// Name of the working folder, from an event of the level `full`.
    pub folder: Option<String>,
    /// Time of the sender's clock at the first event, in milliseconds since 1970.
    pub first_ms: i64,
    /// Time of the sender's clock at the last event.
    pub last_ms: i64,
    /// Time of the sender's clock at the end, if an event reported it and no later event followed.
    pub ended_ms: Option<i64>,
    /// Time of receipt of the newest event.
    pub received_at_ms: i64,
    /// Time before prompts and after requests for a permission, in milliseconds.
    pub waiting_ms: i64,
    /// Sums over the events.
    pub counts: SessionCounts,
    /// Different files that events name, at most [`FILES_MAX`](super::read::FILES_MAX).
    pub files: u32,
    /// Use of models, at most `MODELS_MAX`.
    pub models: Vec<RecordedModelUse>,
}

impl RecordedSession {
    /// The session, found in this part of the log.
    pub(crate) fn of_part(self, part: LogPart) -> Self {
        Self { part, ..self }
    }

    /// The part that has it, and the number of its row there.
    pub(crate) fn place(&self) -> (LogPart, i64) {
        (self.part, self.number)
    }
}

/// Use of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedModelUse {
    /// Name of the model; empty if the events do not name it.
    pub model: String,
    /// Number of answers.
    pub calls: i64,
    /// Tokens that the model read.
    pub input_tokens: i64,
    /// Tokens that the model wrote.
    pub output_tokens: i64,
}

/// A filter of sessions; `None` in a member does not restrict it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Maximum number of sessions, 1 to 200.
    pub limit: u16,
    /// `next` of an earlier page.
    pub cursor: Option<String>,
    /// Inclusive start of the time of receipt of the newest event, in milliseconds since 1970.
    pub since: Option<i64>,
    /// Exclusive end of the time of receipt of the newest event.
    pub until: Option<i64>,
    /// Only sessions on this computer.
    pub machine: Option<MachineUuid>,
    /// Only sessions of this agent kind.
    pub agent: Option<String>,
    /// Only sessions of this project.
    pub project: Option<String>,
}

/// A page of sessions, the one with the newest event first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionPage {
    /// The sessions.
    pub sessions: Vec<RecordedSession>,
    /// Cursor of the next page; `None` after the last session.
    pub next: Option<String>,
}

/// An event of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedSessionEvent {
    /// Id of the event.
    pub event_id: EventId,
    /// Type of the event.
    pub event_type: String,
    /// Lane of the type.
    pub lane: String,
    /// Time of the sender's clock, in milliseconds since 1970.
    pub ts_edge_ms: i64,
    /// Time of receipt.
    pub received_at_ms: i64,
    /// The level that the event declares.
    pub consent_level: String,
    /// Whether the sender removed content.
    pub redacted: bool,
    /// RFC 8785 bytes without `hash_chain.self`.
    pub canonical: Vec<u8>,
}

/// A page of the events of a session, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TimelinePage {
    /// The events.
    pub events: Vec<RecordedSessionEvent>,
    /// Cursor of the next page; `None` after the first event of the session.
    pub next: Option<i64>,
}
