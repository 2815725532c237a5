//! Pages of sessions of agents, and the events of one session (`docs/protocol/sessions.md`).

pub mod costs;

pub use statistics::log::{RecordedModelUse, RecordedSession, SESSIONS_MAX, SessionFilter};
use statistics::parts::Logs;

use std::sync::Arc;

use actors::upstream::Upstream;
use domain::agent_session::{EventFacts, session_id};
use domain::consent::ConsentLevel;
use domain::envelope::EventScope;
use domain::prices::PriceTable;
use domain::recorder::Recorder;
use domain::registry::{NoNames, Registry, Summary};
use serde::Deserialize;
use serde_json::{Map, Value};
use statistics::contract::RecordScope;
use statistics::log::{LogError, RecordedSessionEvent, SessionPage};
use uuid::Uuid;

/// Reads sessions. Clones share everything.
#[derive(Debug, Clone)]
pub struct AgentSessions {
    upstream: Upstream,
    registry: Arc<Registry>,
    prices: Arc<PriceTable>,
}

/// Why sessions could not be read.
#[derive(Debug, thiserror::Error)]
pub enum AgentSessionError {
    /// The statistics service is external, and only the embedded log groups events.
    #[error("the statistics service is external: it does not group events into sessions")]
    External,
    /// The cursor is of no page.
    #[error("the cursor cannot be read")]
    InvalidCursor,
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// A session with a page of its events, newest first.
#[derive(Debug, Clone)]
pub struct SessionTimeline {
    /// The session.
    pub session: RecordedSession,
    /// The events.
    pub events: Vec<TimelineEvent>,
    /// Cursor of the next page.
    pub next: Option<String>,
}

/// An event of a timeline.
#[derive(Debug, Clone)]
pub struct TimelineEvent {
    /// The event.
    pub event: RecordedSessionEvent,
    /// Members of its payload that every level permits.
    pub facts: EventFacts,
    /// The event in a sentence, with content only at the level `full`.
    pub summary: Summary,
}

impl AgentSessions {
    /// Reads the sessions of the log of `upstream`; `registry` describes the events, and `prices` the models.
    pub fn new(upstream: Upstream, registry: Arc<Registry>, prices: Arc<PriceTable>) -> Self {
        Self { upstream, registry, prices }
    }

    /// Whether there are sessions: only the embedded log groups events.
    pub fn is_available(&self) -> bool {
        self.log().is_ok()
    }

    fn log(&self) -> Result<&Logs, AgentSessionError> {
        match &self.upstream {
            Upstream::Embedded { log, .. } => Ok(log),
            Upstream::External(_) => Err(AgentSessionError::External),
        }
    }

    /// A page of the sessions that a party may see.
    #[boxed]
    pub async fn list(&self, scope: &RecordScope, wanted: &SessionFilter) -> Result<SessionPage, AgentSessionError> {
        self.log()?.sessions(scope, wanted).await?.ok_or(AgentSessionError::InvalidCursor)
    }

    /// A session; `None` if the party may not see it.
    #[boxed]
    pub async fn find(&self, scope: &RecordScope, id: Uuid) -> Result<Option<RecordedSession>, AgentSessionError> {
        Ok(self.log()?.session(scope, id).await?)
    }

    /// A session with at most `limit` events before `cursor`; `None` if the party may not see it.
    #[boxed]
    pub async fn timeline(
        &self,
        scope: &RecordScope,
        id: Uuid,
        cursor: Option<&str>,
        limit: u16,
    ) -> Result<Option<SessionTimeline>, AgentSessionError> {
        let log = self.log()?;
        let before = cursor.map(|cursor| cursor.parse::<i64>().map_err(|_| AgentSessionError::InvalidCursor));
        let before = before.transpose()?;
        let Some(session) = log.session(scope, id).await? else { return Ok(None) };
        let page = log.timeline(&session, before, limit).await?;
        let events = page.events.into_iter().map(|event| self.described(event)).collect();
        Ok(Some(SessionTimeline { session, events, next: page.next.map(|next| next.to_string()) }))
    }

    fn described(&self, event: RecordedSessionEvent) -> TimelineEvent {
        #[derive(Deserialize)]
        struct Event {
            payload: Map<String, Value>,
        }
        let level = event.consent_level.parse().unwrap_or(ConsentLevel::Off);
        let summary = match serde_json::from_slice::<Event>(&event.canonical) {
            Ok(Event { payload }) => self.registry.summary(&event.event_type, level, &payload, &NoNames),
            Err(_) => self.registry.title(&event.event_type),
        };
        TimelineEvent { facts: EventFacts::read(&event.canonical), summary, event }
    }
}

/// The id of the session that an event names; `None` if it names none.
pub fn session_of(canonical: &[u8]) -> Option<Uuid> {
    #[derive(Deserialize)]
    struct Event {
        scope: EventScope,
    }
    let EventScope { user_id, machine_id, agent_id, session_uuid, .. } =
        serde_json::from_slice::<Event>(canonical).ok()?.scope;
    Some(session_id(&Recorder { machine: machine_id, identity: user_id }, &agent_id, session_uuid?))
}
