//! Sessions of agents (`docs/protocol/sessions.md`).

use domain::Timestamp;
use domain::ids::{EventId, MachineUuid, SessionUuid};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{form, schema};

/// `GET /api/v1/activity/sessions`: a page of sessions, the one with the newest event first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentSessionPage {
    /// The sessions.
    pub sessions: Vec<AgentSession>,
    /// Cursor of the next page; `null` after the last session.
    #[schema(required = true)]
    pub next_cursor: Option<String>,
}

/// A session of an agent: sums over the events that name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentSession {
    /// Id of the session on this server.
    pub id: Uuid,
    /// The computer that recorded it.
    #[schema(value_type = schema::UuidV7)]
    pub machine_uuid: MachineUuid,
    /// Agent kind.
    pub agent_id: String,
    /// `scope.session_uuid` of its events.
    #[schema(value_type = schema::UuidV7)]
    pub session_uuid: SessionUuid,
    /// `scope.project_id` of the first event that has one; at most 128 bytes.
    #[schema(required = true)]
    pub project_id: Option<String>,
    /// Name of the working folder, if an event of the level `full` has it.
    #[schema(required = true)]
    pub folder: Option<String>,
    /// Time of the computer's clock at the first event, in milliseconds since 1970.
    pub started_ms: i64,
    /// Time of the computer's clock at the last event, in milliseconds since 1970.
    pub last_ms: i64,
    /// Time of the computer's clock at the end, if the agent reported it.
    #[schema(required = true)]
    pub ended_ms: Option<i64>,
    /// Time of receipt of the newest event.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub received_at: Timestamp,
    /// Time before prompts and after requests for a permission, in milliseconds.
    pub waiting_ms: i64,
    /// Time in tools, in milliseconds.
    pub tool_ms: i64,
    /// Number of events.
    pub events: i64,
    /// Finished uses of tools.
    pub tool_calls: i64,
    /// Failed uses of tools, and failed answers of models.
    pub failures: i64,
    /// Actions that were denied or blocked.
    pub blocked: i64,
    /// Prompts of a person or program.
    pub prompts: i64,
    /// Answers of models, including failed ones.
    pub model_calls: i64,
    /// Agents that the agent started.
    pub subagents: i64,
    /// Different files that events name, counted up to 1,000.
    pub files: u32,
    /// Tokens that models read.
    pub input_tokens: i64,
    /// Tokens that models wrote.
    pub output_tokens: i64,
    /// Costs of the tokens of models with a price, in millionths of a US dollar.
    pub cost_microdollars: i64,
    /// Whether a model with tokens has no price.
    pub unpriced: bool,
    /// Use of each model, at most 20.
    pub models: Vec<ModelUse>,
}

/// Use of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelUse {
    /// Name of the model; `null` if the events do not name it.
    #[schema(required = true)]
    pub model: Option<String>,
    /// Number of answers.
    pub calls: i64,
    /// Tokens that the model read.
    pub input_tokens: i64,
    /// Tokens that the model wrote.
    pub output_tokens: i64,
}

/// `GET /api/v1/activity/sessions/{id}`: a session, and a page of its events, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentSessionTimeline {
    /// The session.
    pub session: AgentSession,
    /// The events of the page.
    pub events: Vec<SessionEvent>,
    /// Cursor of the next page; `null` after the first event of the session.
    #[schema(required = true)]
    pub next_cursor: Option<String>,
}

/// An event of a session, with the members of its payload that every level permits. A member that the event does not have is `null`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionEvent {
    /// Id of the event.
    #[schema(value_type = schema::UuidV7)]
    pub event_id: EventId,
    /// Type of the event.
    pub event_type: String,
    /// Lane of the type.
    pub lane: String,
    /// Time of the computer's clock, in milliseconds since 1970.
    pub ts_edge_ms: i64,
    /// Time of receipt.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub received_at: Timestamp,
    /// The level that the event declares.
    pub consent_level: String,
    /// The event in a sentence.
    pub summary: String,
    /// What happened, in the words of hooks.
    #[schema(required = true)]
    pub activity: Option<String>,
    /// Name of the tool or skill.
    #[schema(required = true)]
    pub skill: Option<String>,
    /// Name of the subagent's kind.
    #[schema(required = true)]
    pub subagent: Option<String>,
    /// Name of the model.
    #[schema(required = true)]
    pub model: Option<String>,
    /// Whether the tool succeeded.
    #[schema(required = true)]
    pub succeeded: Option<bool>,
    /// Duration in milliseconds.
    #[schema(required = true)]
    pub duration_ms: Option<u64>,
    /// Tokens that the model read.
    #[schema(required = true)]
    pub input_tokens: Option<u64>,
    /// Tokens that the model wrote.
    #[schema(required = true)]
    pub output_tokens: Option<u64>,
}
