//! Pages of sessions, and of the events of one session.

use std::collections::HashMap;

use domain::agent_session::SessionCounts;
use domain::log_part::LogPart;
use domain::recorder::Recorder;
use store::pool::query;
use uuid::Uuid;

use super::model::{RecordedModelUse, RecordedSession, RecordedSessionEvent, SessionFilter, SessionPage, TimelinePage};
use super::sql::{self, SessionStatements};
use crate::contract::RecordScope;
use crate::log::error::{During, LogError};
use crate::log::handle::Log;
use crate::log::read::Cursor;

/// Maximum number of sessions of a page, and of events of a page.
pub const LIMIT_MAX: u16 = 200;
/// Files of a session that are counted.
pub const FILES_MAX: u32 = 1_000;
/// Models of a session that are read, in the order of their names.
pub const MODELS_MAX: u32 = 20;

store::row! {
    /// A row of `agent_sessions`.
    #[derive(Debug)]
    pub struct SessionRow {
        pub number: i64,
        pub id: Uuid,
        pub machine_id: Uuid,
        pub user_cuid: String,
        pub agent_id: String,
        pub session_uuid: Uuid,
        pub project_id: Option<String>,
        pub folder: Option<String>,
        pub first_ms: i64,
        pub last_ms: i64,
        pub ended_ms: Option<i64>,
        pub received_at_ms: i64,
        pub waiting_ms: i64,
        pub counts: CountColumns,
    }
}

store::row! {
    /// The sums of a row of `agent_sessions`.
    #[derive(Debug)]
    pub struct CountColumns {
        pub events: i64,
        pub tool_calls: i64,
        pub failures: i64,
        pub blocked: i64,
        pub prompts: i64,
        pub model_calls: i64,
        pub subagents: i64,
        pub input_tokens: i64,
        pub output_tokens: i64,
        pub tool_ms: i64,
    }
}

store::row! {
    /// An event of a session.
    #[derive(Debug)]
    pub struct TimelineRow {
        pub id: i64,
        pub event_id: Uuid,
        pub event_type: String,
        pub lane: String,
        pub ts_edge_ms: i64,
        pub received_at_ms: i64,
        pub consent_level: String,
        pub redacted: bool,
        pub canonical: Vec<u8>,
    }
}

impl SessionRow {
    pub(crate) fn place(&self) -> Cursor {
        Cursor { received_at_ms: self.received_at_ms, id: self.number }
    }
}

impl SessionFilter {
    fn limit(&self) -> u16 {
        self.limit.clamp(1, LIMIT_MAX)
    }

    /// Removes the row beyond the page; returns the last row of the page if there was one.
    pub(crate) fn end_of<'r, R>(&self, rows: &'r mut Vec<R>) -> Option<&'r R> {
        let has_more = rows.len() > usize::from(self.limit());
        rows.truncate(usize::from(self.limit()));
        rows.last().filter(|_| has_more)
    }
}

impl Log {
    /// A page of the sessions that computers of the scope recorded; `None` if the cursor is invalid. The newest events of the log may not
    /// be included yet.
    #[boxed]
    pub async fn sessions(&self, scope: &RecordScope, wanted: &SessionFilter) -> Result<Option<SessionPage>, LogError> {
        let Some(before) = wanted.cursor.as_deref().map_or(Some(Cursor::LAST), Cursor::read) else { return Ok(None) };
        let mut rows = self.session_rows(scope, wanted, before).await?;
        let next = wanted.end_of(&mut rows).map(|row| row.place().written());
        Ok(Some(SessionPage { sessions: self.described(rows).await?, next }))
    }

    /// The newest rows of a page before a cursor: one more than the page has, if there is a next page.
    pub(crate) async fn session_rows(
        &self,
        scope: &RecordScope,
        wanted: &SessionFilter,
        before: Cursor,
    ) -> Result<Vec<SessionRow>, LogError> {
        let before = wanted.until.map_or(before, |until| before.min(Cursor { received_at_ms: until, id: i64::MIN }));
        let is_wanted = |recorder: &&Recorder| wanted.machine.is_none_or(|machine| recorder.machine == machine);
        let recorders: Vec<&Recorder> = scope.shown.computers.iter().filter(is_wanted).collect();
        if recorders.is_empty() {
            return Ok(Vec::new());
        }
        let recorders = serde_json::to_string(&recorders).unwrap_or_default();
        let page = query(self.session_statements().page).bind(&recorders).bind(wanted.since.unwrap_or(i64::MIN));
        let page = page.bind(before.received_at_ms).bind(before.id).bind(i64::from(wanted.limit()) + 1);
        let page = page.bind(wanted.agent.as_deref()).bind(wanted.project.as_deref());
        page.fetch_all(&self.pool).await.during("read sessions")
    }

    /// A session, if a computer of the scope recorded it.
    #[boxed]
    pub async fn session(&self, scope: &RecordScope, id: Uuid) -> Result<Option<RecordedSession>, LogError> {
        let row: Option<SessionRow> =
            query(sql::ONE).bind(id).fetch_optional(&self.pool).await.during("read a session")?;
        let is_of = |row: &SessionRow, known: &Recorder| {
            known.machine.as_uuid() == row.machine_id && known.identity.as_str() == row.user_cuid
        };
        let row = row.filter(|row| scope.shown.computers.iter().any(|known| is_of(row, known)));
        Ok(self.described(row.into_iter().collect()).await?.pop())
    }

    /// A page of the events of a session, newest first: at most `limit` before the cursor `before`.
    #[boxed]
    pub async fn timeline(
        &self,
        session: &RecordedSession,
        before: Option<i64>,
        limit: u16,
    ) -> Result<TimelinePage, LogError> {
        let limit = limit.clamp(1, LIMIT_MAX);
        let page = query(self.session_statements().timeline).bind(session.number).bind(before.unwrap_or(i64::MAX));
        let page = page.bind(i64::from(limit) + 1).fetch_all(&self.pool);
        let mut rows: Vec<TimelineRow> = page.await.during("read the events of a session")?;
        let has_more = rows.len() > usize::from(limit);
        rows.truncate(usize::from(limit));
        self.fill_page(rows.iter_mut().map(|row| (row.id, &mut row.canonical)).collect()).await?;
        let next = rows.last().filter(|_| has_more).map(|row| row.id);
        let event = |row: TimelineRow| RecordedSessionEvent {
            event_id: row.event_id.into(),
            event_type: row.event_type,
            lane: row.lane,
            ts_edge_ms: row.ts_edge_ms,
            received_at_ms: row.received_at_ms,
            consent_level: row.consent_level,
            redacted: row.redacted,
            canonical: row.canonical,
        };
        Ok(TimelinePage { events: rows.into_iter().map(event).collect(), next })
    }

    pub(super) fn session_statements(&self) -> &'static SessionStatements {
        if self.pool.is_postgres() { &sql::POSTGRES } else { &sql::SQLITE }
    }

    /// Adds files and models to rows.
    pub(crate) async fn described(&self, rows: Vec<SessionRow>) -> Result<Vec<RecordedSession>, LogError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let statements = self.session_statements();
        let numbers: Vec<i64> = rows.iter().map(|row| row.number).collect();
        let numbers = serde_json::to_string(&numbers).unwrap_or_default();
        let files = query(statements.files).bind(&numbers).bind(i64::from(FILES_MAX)).fetch_all(&self.pool);
        let files: Vec<(i64, i64)> = files.await.during("count the files of sessions")?;
        let files: HashMap<i64, i64> = files.into_iter().collect();
        let uses = query(statements.models).bind(&numbers).bind(i64::from(MODELS_MAX)).fetch_all(&self.pool);
        let uses: Vec<(i64, String, i64, i64, i64)> = uses.await.during("read the models of sessions")?;
        let mut models: HashMap<i64, Vec<RecordedModelUse>> = HashMap::new();
        for (session, model, calls, input_tokens, output_tokens) in uses {
            models.entry(session).or_default().push(RecordedModelUse { model, calls, input_tokens, output_tokens });
        }
        let session = |row: SessionRow| RecordedSession {
            files: files.get(&row.number).and_then(|files| u32::try_from(*files).ok()).unwrap_or_default(),
            models: models.remove(&row.number).unwrap_or_default(),
            number: row.number,
            part: LogPart::FIRST,
            id: row.id,
            machine: row.machine_id.into(),
            agent: row.agent_id,
            session: row.session_uuid.into(),
            project: row.project_id,
            folder: row.folder,
            first_ms: row.first_ms,
            last_ms: row.last_ms,
            ended_ms: row.ended_ms.filter(|ended| *ended >= row.last_ms),
            received_at_ms: row.received_at_ms,
            waiting_ms: row.waiting_ms,
            counts: SessionCounts::from(row.counts),
        };
        Ok(rows.into_iter().map(session).collect())
    }
}

impl From<CountColumns> for SessionCounts {
    fn from(columns: CountColumns) -> Self {
        let CountColumns {
            events,
            tool_calls,
            failures,
            blocked,
            prompts,
            model_calls,
            subagents,
            input_tokens,
            output_tokens,
            tool_ms,
        } = columns;
        Self {
            events,
            tool_calls,
            failures,
            blocked,
            prompts,
            model_calls,
            subagents,
            input_tokens,
            output_tokens,
            tool_ms,
        }
    }
}
