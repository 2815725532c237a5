//! The statements of the sessions of agents.
//!
//! Rows are passed as one JSON array, so that each statement has one text. Statements that the writer of an SQLite file executes have
//! their parameters in ascending order, because it binds them by their first occurrence.

use store::joined;

/// Number of events that the tables include.
pub const PROGRESS: &str = "SELECT events FROM session_progress WHERE id = 1";
/// Moves the progress from `$1` by `$2`; no row if another process was faster.
pub const ADVANCE: &str = "UPDATE session_progress SET events = $1 + $2 WHERE id = 1 AND events = $1";

/// The columns of [`FollowedEvent`](super::batch::FollowedEvent).
const FOLLOWED: &str =
    "SELECT e.id, s.machine_id, s.user_cuid, s.agent_id, e.event_type, e.consent_level, e.ts_edge_ms, e.received_at_ms,
        e.canonical
    FROM ";
/// The next events after number `$1`, at most `$2`. Numbers have no gap, so the number of an event is also its place in the log.
pub const FOLLOWED_ON_SQLITE: &str =
    joined!(FOLLOWED, "events e JOIN sources s ON s.id = e.source_id WHERE e.id > $1 ORDER BY e.id LIMIT $2");
/// The events from place `$1` on, at most `$2`.
pub const FOLLOWED_ON_POSTGRES: &str = joined!(
    FOLLOWED,
    "leaves l JOIN events e ON e.id = l.event JOIN sources s ON s.id = e.source_id
    WHERE l.leaf_index >= $1 ORDER BY l.leaf_index LIMIT $2"
);

/// The statements that differ between the databases.
#[derive(Debug)]
pub struct SessionStatements {
    /// `(id, last_ms, is_request)` of stored sessions. Parameter: their ids.
    pub states: &'static str,
    /// Adds the arrays of [`SessionBatch::rows`](super::batch::SessionBatch::rows), in that order.
    pub rows: [&'static str; 4],
    /// Adds the use of models by day.
    pub days: &'static str,
    /// A page of sessions. Parameters: recorders (JSON array of `{machine, identity}`), since, before (`$3, $4`), limit, agent kind or
    /// null, project or null.
    pub page: &'static str,
    /// `(session, model, calls, input_tokens, output_tokens)`. Parameters: sessions (JSON array of numbers), limit for each.
    pub models: &'static str,
    /// `(session, files)`. Parameters: sessions (JSON array of numbers), limit for each.
    pub files: &'static str,
    /// A page of the events of a session. Parameters: session, before, limit.
    pub timeline: &'static str,
}

const SESSIONS: [&str; 2] = [
    "INSERT INTO agent_sessions (id, machine_id, user_cuid, agent_id, session_uuid, project_id, folder, first_ms, last_ms, ended_ms,
        received_at_ms, waiting_ms, is_request, events, tool_calls, failures, blocked, prompts, model_calls, subagents, input_tokens,
        output_tokens, tool_ms)
    SELECT ",
    " WHERE TRUE
    ON CONFLICT (id) DO UPDATE SET
        project_id = COALESCE(agent_sessions.project_id, excluded.project_id),
        folder = COALESCE(agent_sessions.folder, excluded.folder),
        first_ms = CASE WHEN excluded.first_ms < agent_sessions.first_ms THEN excluded.first_ms ELSE agent_sessions.first_ms END,
        last_ms = CASE WHEN excluded.last_ms > agent_sessions.last_ms THEN excluded.last_ms ELSE agent_sessions.last_ms END,
        ended_ms = COALESCE(excluded.ended_ms, agent_sessions.ended_ms),
        received_at_ms = CASE WHEN excluded.received_at_ms > agent_sessions.received_at_ms THEN excluded.received_at_ms
            ELSE agent_sessions.received_at_ms END,
        waiting_ms = agent_sessions.waiting_ms + excluded.waiting_ms,
        is_request = excluded.is_request,
        events = agent_sessions.events + excluded.events,
        tool_calls = agent_sessions.tool_calls + excluded.tool_calls,
        failures = agent_sessions.failures + excluded.failures,
        blocked = agent_sessions.blocked + excluded.blocked,
        prompts = agent_sessions.prompts + excluded.prompts,
        model_calls = agent_sessions.model_calls + excluded.model_calls,
        subagents = agent_sessions.subagents + excluded.subagents,
        input_tokens = agent_sessions.input_tokens + excluded.input_tokens,
        output_tokens = agent_sessions.output_tokens + excluded.output_tokens,
        tool_ms = agent_sessions.tool_ms + excluded.tool_ms",
];

const MODELS: [&str; 2] = [
    "INSERT INTO session_models (session, model, calls, input_tokens, output_tokens) SELECT a.number, ",
    " WHERE TRUE ON CONFLICT (session, model) DO UPDATE SET calls = session_models.calls + excluded.calls,
        input_tokens = session_models.input_tokens + excluded.input_tokens,
        output_tokens = session_models.output_tokens + excluded.output_tokens",
];

const DAYS: [&str; 2] = [
    "INSERT INTO model_days (machine_id, user_cuid, day, agent_id, project_id, model, calls, input_tokens, output_tokens) SELECT ",
    " WHERE TRUE ON CONFLICT (machine_id, user_cuid, day, agent_id, project_id, model) DO UPDATE SET
        calls = model_days.calls + excluded.calls, input_tokens = model_days.input_tokens + excluded.input_tokens,
        output_tokens = model_days.output_tokens + excluded.output_tokens",
];

/// The columns of [`SessionRow`](super::read::SessionRow).
const COLUMNS: &str = "SELECT a.number, a.id, a.machine_id, a.user_cuid, a.agent_id, a.session_uuid, a.project_id, a.folder, a.first_ms,
        a.last_ms, a.ended_ms, a.received_at_ms, a.waiting_ms, a.events, a.tool_calls, a.failures, a.blocked, a.prompts, a.model_calls,
        a.subagents, a.input_tokens, a.output_tokens, a.tool_ms
    FROM ";

/// One session. Parameter: its id.
pub const ONE: &str = joined!(COLUMNS, "agent_sessions a WHERE a.id = $1");

/// The condition of a page on the rows `n` of one recorder, from the newest on.
const OF_PAGE: &str = "n.received_at_ms >= $2 AND (n.received_at_ms, n.number) < ($3, $4)
        AND (CAST($6 AS TEXT) IS NULL OR n.agent_id = $6) AND (CAST($7 AS TEXT) IS NULL OR n.project_id = $7)
    ORDER BY n.received_at_ms DESC, n.number DESC LIMIT $5";

/// The columns of [`TimelineRow`](super::read::TimelineRow).
const TIMELINE: &str =
    "SELECT e.id, e.event_id, e.event_type, s.lane, e.ts_edge_ms, e.received_at_ms, e.consent_level, e.redacted, e.canonical
    FROM ";

pub static SQLITE: SessionStatements = SessionStatements {
    states: "SELECT a.id, a.last_ms, a.is_request FROM json_each($1) r
        CROSS JOIN agent_sessions a ON a.id = unhex(r.value, '-')",
    rows: [
        joined!(
            SESSIONS[0],
            "unhex(r.value ->> 'id', '-'), unhex(r.value ->> 'machine_id', '-'), r.value ->> 'user_cuid', r.value ->> 'agent_id',
        unhex(r.value ->> 'session_uuid', '-'), r.value ->> 'project_id', r.value ->> 'folder', r.value ->> 'first_ms',
        r.value ->> 'last_ms', r.value ->> 'ended_ms', r.value ->> 'received_at_ms', r.value ->> 'waiting_ms', r.value ->> 'is_request',
        r.value ->> 'events', r.value ->> 'tool_calls', r.value ->> 'failures', r.value ->> 'blocked', r.value ->> 'prompts',
        r.value ->> 'model_calls', r.value ->> 'subagents', r.value ->> 'input_tokens', r.value ->> 'output_tokens',
        r.value ->> 'tool_ms' FROM json_each($1) r",
            SESSIONS[1]
        ),
        "INSERT INTO session_events (session, event) SELECT a.number, r.value ->> 'event'
        FROM json_each($1) r CROSS JOIN agent_sessions a ON a.id = unhex(r.value ->> 'id', '-')",
        "INSERT OR IGNORE INTO session_files (session, file) SELECT a.number, r.value ->> 'file'
        FROM json_each($1) r CROSS JOIN agent_sessions a ON a.id = unhex(r.value ->> 'id', '-')",
        joined!(
            MODELS[0],
            "r.value ->> 'model', r.value ->> 'calls', r.value ->> 'input_tokens', r.value ->> 'output_tokens'
        FROM json_each($1) r CROSS JOIN agent_sessions a ON a.id = unhex(r.value ->> 'id', '-')",
            MODELS[1]
        ),
    ],
    days: joined!(
        DAYS[0],
        "unhex(r.value ->> 'machine_id', '-'), r.value ->> 'user_cuid', r.value ->> 'day', r.value ->> 'agent_id',
        r.value ->> 'project_id', r.value ->> 'model', r.value ->> 'calls', r.value ->> 'input_tokens', r.value ->> 'output_tokens'
        FROM json_each($1) r",
        DAYS[1]
    ),
    page: joined!(
        COLUMNS,
        "json_each($1) r CROSS JOIN agent_sessions a ON a.number IN (SELECT n.number FROM agent_sessions n
            WHERE n.machine_id = unhex(r.value ->> 'machine', '-') AND n.user_cuid = r.value ->> 'identity' AND ",
        OF_PAGE,
        ") ORDER BY a.received_at_ms DESC, a.number DESC LIMIT $5"
    ),
    models: "SELECT m.session, m.model, m.calls, m.input_tokens, m.output_tokens FROM json_each($1) r
        CROSS JOIN session_models m ON m.session = r.value AND m.model IN (SELECT n.model FROM session_models n
            WHERE n.session = r.value ORDER BY n.model LIMIT $2)",
    files: "SELECT CAST(r.value AS INTEGER),
            (SELECT COUNT(*) FROM (SELECT 1 FROM session_files f WHERE f.session = r.value LIMIT $2))
        FROM json_each($1) r",
    timeline: joined!(
        TIMELINE,
        "session_events t CROSS JOIN events e ON e.id = t.event CROSS JOIN sources s ON s.id = e.source_id
        WHERE t.session = $1 AND t.event < $2 ORDER BY t.event DESC LIMIT $3"
    ),
};

pub static POSTGRES: SessionStatements = SessionStatements {
    states: "SELECT a.id, a.last_ms, a.is_request FROM jsonb_array_elements_text($1::JSONB) AS r (id)
        CROSS JOIN LATERAL (SELECT * FROM agent_sessions WHERE id = r.id::UUID OFFSET 0) a",
    rows: [
        joined!(
            SESSIONS[0],
            "r.* FROM jsonb_to_recordset($1::JSONB) AS r (id UUID, machine_id UUID, user_cuid TEXT, agent_id TEXT, session_uuid UUID,
        project_id TEXT, folder TEXT, first_ms BIGINT, last_ms BIGINT, ended_ms BIGINT, received_at_ms BIGINT, waiting_ms BIGINT,
        is_request BOOLEAN, events BIGINT, tool_calls BIGINT, failures BIGINT, blocked BIGINT, prompts BIGINT, model_calls BIGINT,
        subagents BIGINT, input_tokens BIGINT, output_tokens BIGINT, tool_ms BIGINT)",
            SESSIONS[1]
        ),
        "INSERT INTO session_events (session, event) SELECT a.number, r.event
        FROM jsonb_to_recordset($1::JSONB) AS r (id UUID, event BIGINT)
        CROSS JOIN LATERAL (SELECT number FROM agent_sessions WHERE id = r.id OFFSET 0) a",
        "INSERT INTO session_files (session, file) SELECT a.number, r.file
        FROM jsonb_to_recordset($1::JSONB) AS r (id UUID, file BIGINT)
        CROSS JOIN LATERAL (SELECT number FROM agent_sessions WHERE id = r.id OFFSET 0) a ON CONFLICT DO NOTHING",
        joined!(
            MODELS[0],
            "r.model, r.calls, r.input_tokens, r.output_tokens
        FROM jsonb_to_recordset($1::JSONB) AS r (id UUID, model TEXT, calls BIGINT, input_tokens BIGINT, output_tokens BIGINT)
        CROSS JOIN LATERAL (SELECT number FROM agent_sessions WHERE id = r.id OFFSET 0) a",
            MODELS[1]
        ),
    ],
    days: joined!(
        DAYS[0],
        "r.* FROM jsonb_to_recordset($1::JSONB) AS r (machine_id UUID, user_cuid TEXT, day BIGINT, agent_id TEXT, project_id TEXT,
        model TEXT, calls BIGINT, input_tokens BIGINT, output_tokens BIGINT)",
        DAYS[1]
    ),
    page: joined!(
        COLUMNS,
        "jsonb_to_recordset($1::JSONB) AS r (machine UUID, identity TEXT)
        CROSS JOIN LATERAL (SELECT n.* FROM agent_sessions n WHERE n.machine_id = r.machine AND n.user_cuid = r.identity AND ",
        OF_PAGE,
        ") a ORDER BY a.received_at_ms DESC, a.number DESC LIMIT $5"
    ),
    models: "SELECT m.session, m.model, m.calls, m.input_tokens, m.output_tokens
        FROM jsonb_array_elements_text($1::JSONB) AS r (session)
        CROSS JOIN LATERAL (SELECT * FROM session_models n WHERE n.session = r.session::BIGINT ORDER BY n.model LIMIT $2) m",
    files: "SELECT r.session::BIGINT, f.files FROM jsonb_array_elements_text($1::JSONB) AS r (session)
        CROSS JOIN LATERAL (SELECT COUNT(*) AS files
            FROM (SELECT 1 FROM session_files n WHERE n.session = r.session::BIGINT LIMIT $2) AS n) f",
    timeline: joined!(
        TIMELINE,
        "(SELECT event FROM session_events WHERE session = $1 AND event < $2 ORDER BY event DESC LIMIT $3) t
        CROSS JOIN LATERAL (SELECT * FROM events WHERE id = t.event OFFSET 0) e JOIN sources s ON s.id = e.source_id
        ORDER BY t.event DESC"
    ),
};
