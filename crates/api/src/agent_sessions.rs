//! Sessions of agents (`docs/protocol/sessions.md`).

use std::sync::Arc;

use app::config::Urls;
use app::services::agent_sessions::{
    AgentSessionError, AgentSessions, RecordedSession, SESSIONS_MAX, SessionFilter, TimelineEvent,
};
use axum::extract::State;
use domain::Timestamp;
use domain::clock::read_millis;
use domain::ids::MachineUuid;
use domain::usage::Day;
use serde::Deserialize;
use serde_json::json;
use store::Store;

use super::activity::{page_limit, scope};
use super::auth::Caller;
use super::body;
use super::error::{ApiError, ApiResult, Code};
use super::named::Named;
use super::query::ApiQuery;

const SESSIONS_DEFAULT: u16 = 50;
const EVENTS_DEFAULT: u16 = 100;
/// Maximum size of a parameter in UTF-8 bytes.
const PARAMETER_BYTES_MAX: usize = 1024;

/// `?limit&cursor&since&day&agent&project&computer`
#[derive(Debug, Deserialize)]
pub struct SessionParameters {
    limit: Option<String>,
    cursor: Option<String>,
    since: Option<String>,
    day: Option<String>,
    agent: Option<String>,
    project: Option<String>,
    computer: Option<String>,
}

/// `?limit&cursor`
#[derive(Debug, Deserialize)]
pub struct TimelineParameters {
    limit: Option<String>,
    cursor: Option<String>,
}

/// `GET /api/v1/activity/sessions`
pub async fn list(
    State(sessions): State<AgentSessions>,
    State(store): State<Store>,
    State(urls): State<Arc<Urls>>,
    caller: Caller,
    ApiQuery(query): ApiQuery<SessionParameters>,
) -> ApiResult {
    let query = query.parsed()?;
    let scope = scope(&caller, &store, &urls).await?;
    let page = sessions.list(&scope, &query).await.map_err(refused)?;
    let list = page.sessions.into_iter().map(|session| described(&sessions, session)).collect();
    body::answer(&wire::agent_session::AgentSessionPage { sessions: list, next_cursor: page.next })
}

/// `GET /api/v1/activity/sessions/{id}`
pub async fn show(
    State(sessions): State<AgentSessions>,
    State(store): State<Store>,
    State(urls): State<Arc<Urls>>,
    caller: Caller,
    Named(id): Named,
    ApiQuery(query): ApiQuery<TimelineParameters>,
) -> ApiResult {
    let (limit, cursor) = (page_limit(query.limit, EVENTS_DEFAULT, SESSIONS_MAX)?, short("cursor", query.cursor)?);
    let scope = scope(&caller, &store, &urls).await?;
    // A session of another account is refused like an unknown one.
    let id = id.parse().map_err(|_| Code::NotFound)?;
    let timeline = sessions.timeline(&scope, id, cursor.as_deref(), limit).await.map_err(refused)?;
    let timeline = timeline.ok_or(Code::NotFound)?;
    body::answer(&wire::agent_session::AgentSessionTimeline {
        session: described(&sessions, timeline.session),
        events: timeline.events.into_iter().map(event).collect(),
        next_cursor: timeline.next,
    })
}

/// The response to a failed read of sessions.
pub fn refused(error: AgentSessionError) -> ApiError {
    match error {
        AgentSessionError::External => {
            ApiError::new(Code::EmbeddedLogRequired).with("message", json!(AgentSessionError::External.to_string()))
        }
        AgentSessionError::InvalidCursor => ApiError::invalid("cursor", "is not the cursor of a page"),
        AgentSessionError::Log(error) => {
            tracing::warn!(error = domain::reasons(&error), "sessions could not be read");
            ApiError::unavailable("upstream_unavailable", std::time::Duration::from_secs(1))
        }
    }
}

impl SessionParameters {
    fn parsed(self) -> Result<SessionFilter, ApiError> {
        let Self { limit: size, cursor, since, day, agent, project, computer } = self;
        let since = since.map(|text| moment(&text)).transpose()?;
        let day = day.map(|text| text.parse::<Day>().map_err(|error| ApiError::invalid("day", error.to_string())));
        let day = day.transpose()?;
        let machine = computer
            .map(|text| text.parse::<MachineUuid>().map_err(|error| ApiError::invalid("computer", error.to_string())));
        Ok(SessionFilter {
            limit: page_limit(size, SESSIONS_DEFAULT, SESSIONS_MAX)?,
            cursor: short("cursor", cursor)?,
            since: since.max(day.map(|day| day.begin().timestamp_millis())),
            until: day.map(|day| day.next().begin().timestamp_millis()),
            machine: machine.transpose()?,
            agent: short("agent", agent)?,
            project: short("project", project)?,
        })
    }
}

fn short(name: &str, text: Option<String>) -> Result<Option<String>, ApiError> {
    match text {
        Some(text) if text.len() > PARAMETER_BYTES_MAX && name == "cursor" => Err(Code::CursorTooLong.into()),
        Some(text) if text.len() > PARAMETER_BYTES_MAX => Err(ApiError::invalid(name, "is too long")),
        // PostgreSQL stores no text with this character, so nothing matches it.
        Some(text) if text.contains('\0') => Err(ApiError::invalid(name, "contains the character U+0000")),
        text => Ok(text),
    }
}

/// An RFC 3339 date-time, or milliseconds since 1970, in milliseconds.
fn moment(text: &str) -> Result<i64, ApiError> {
    read_millis(text)
        .ok_or_else(|| ApiError::invalid("since", "expected a date-time of RFC 3339 or milliseconds since 1970"))
}

fn described(service: &AgentSessions, session: RecordedSession) -> wire::agent_session::AgentSession {
    let cost = service.cost_of(&session.models);
    let RecordedSession {
        id,
        machine,
        agent,
        session: session_uuid,
        project,
        folder,
        first_ms,
        last_ms,
        ended_ms,
        received_at_ms,
        waiting_ms,
        counts,
        files,
        models,
        ..
    } = session;
    let model = |used: app::services::agent_sessions::RecordedModelUse| wire::agent_session::ModelUse {
        model: Some(used.model).filter(|model| !model.is_empty()),
        calls: used.calls,
        input_tokens: used.input_tokens,
        output_tokens: used.output_tokens,
    };
    wire::agent_session::AgentSession {
        id,
        machine_uuid: machine,
        agent_id: agent,
        session_uuid,
        project_id: project,
        folder,
        started_ms: first_ms,
        last_ms,
        ended_ms,
        received_at: received(received_at_ms),
        waiting_ms,
        tool_ms: counts.tool_ms,
        events: counts.events,
        tool_calls: counts.tool_calls,
        failures: counts.failures,
        blocked: counts.blocked,
        prompts: counts.prompts,
        model_calls: counts.model_calls,
        subagents: counts.subagents,
        files,
        input_tokens: counts.input_tokens,
        output_tokens: counts.output_tokens,
        cost_microdollars: cost.priced.0,
        unpriced: cost.is_partial,
        models: models.into_iter().map(model).collect(),
    }
}

fn event(TimelineEvent { event, facts, summary }: TimelineEvent) -> wire::agent_session::SessionEvent {
    wire::agent_session::SessionEvent {
        event_id: event.event_id,
        event_type: event.event_type,
        lane: event.lane,
        ts_edge_ms: event.ts_edge_ms,
        received_at: received(event.received_at_ms),
        consent_level: event.consent_level,
        summary: summary.sentence(),
        activity: facts.activity,
        skill: facts.skill,
        subagent: facts.subagent,
        model: facts.model,
        succeeded: facts.succeeded,
        duration_ms: facts.duration_ms,
        input_tokens: facts.input_tokens,
        output_tokens: facts.output_tokens,
    }
}

/// A time that this server wrote; every one is valid.
fn received(millis: i64) -> Timestamp {
    Timestamp::from_timestamp_millis(millis).unwrap_or_default()
}
