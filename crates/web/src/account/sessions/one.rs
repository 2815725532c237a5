//! A session: its figures and its timeline.

use api::named::Named;
use app::services::activity::browse::Activity;
use app::services::agent_sessions::costs::SessionCost;
use app::services::agent_sessions::{AgentSessionError, AgentSessions, RecordedSession, SessionTimeline};
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use statistics::contract::RecordScope;
use uuid::Uuid;

use super::timeline::{TimelineLine, rows};
use super::words::{amount, count, duration};
use super::{SessionState, cost_words, external, model_words, moment, project_words, title, unavailable};
use crate::account::AccountOwner;
use crate::account::activity::computers::Computers;
use crate::account::activity::rows::agent_title;
use crate::visitor::quoted;
use crate::{CursorQuery, Moment, PageError, PageErrorTexts, PageLayout, PageQuery, PageResult, Site, page};

/// Events of a page.
const PAGE_EVENTS: u16 = 100;

#[derive(Template)]
#[template(path = "account/session.html")]
struct SessionPage {
    frame: PageLayout,
    tab: &'static str,
    id: String,
    title: String,
    agent: String,
    computer: String,
    computer_link: String,
    /// Words and address of the list of its project.
    project: Option<(String, String)>,
    state: SessionState,
    started: Moment,
    received: Moment,
    figures: Vec<Figure>,
    models: Vec<ModelLine>,
    rows: Vec<TimelineLine>,
    /// Number of events of the session.
    events: i64,
    is_first: bool,
    next: Option<String>,
}

struct Figure {
    name: &'static str,
    value: String,
    note: String,
    is_bad: bool,
}

struct ModelLine {
    name: String,
    calls: String,
    input: String,
    output: String,
}

/// `GET /account/sessions/{id}`
pub async fn show(
    State(site): State<Site>,
    State(activity): State<Activity>,
    State(sessions): State<AgentSessions>,
    owner: AccountOwner,
    Named(id): Named,
    PageQuery(query): PageQuery<CursorQuery>,
) -> PageResult {
    let now = site.ports.clock.now();
    let cursor = query.cursor();
    let timeline = read(&site, (&activity, &sessions), &owner, &id, cursor, PAGE_EVENTS).await?;
    let SessionTimeline { session, events, next } = timeline;
    let scope = activity.scope(&owner.account).await.map_err(PageError::of(&site))?;
    let computers = Computers::of(&site, &owner.account, &scope).await?;
    let frame = PageLayout::new(&site, Some(&owner.visitor));
    let path = format!("{}/account/sessions", frame.root);
    let project = session.project.as_deref();
    Ok(page(
        StatusCode::OK,
        &SessionPage {
            tab: "sessions",
            title: title(&session),
            agent: agent_title(&session.agent).to_owned(),
            computer: computers.name(session.machine).to_owned(),
            computer_link: format!("{path}?computer={}", session.machine),
            project: project.map(|project| (project_words(project), format!("{path}?project={}", quoted(project)))),
            state: SessionState::of(&session, now),
            started: moment(session.first_ms, now),
            received: moment(session.received_at_ms, now),
            figures: figures(&session, sessions.cost_of(&session.models)),
            models: models(&session),
            events: session.counts.events,
            rows: rows(&events, cursor.is_none()),
            is_first: cursor.is_none(),
            next: next.map(|cursor| format!("{path}/{}?cursor={cursor}", session.id)),
            id: session.id.to_string(),
            frame,
        },
    ))
}

/// The session of an id; a page if the account has none, or if it cannot be read.
pub(super) async fn find(
    site: &Site,
    sessions: &AgentSessions,
    scope: &RecordScope,
    owner: &AccountOwner,
    id: Uuid,
) -> Result<RecordedSession, PageError> {
    let session = sessions.find(scope, id).await.map_err(|error| unreadable(site, owner, &error))?;
    session.ok_or_else(|| not_found(site, owner))
}

async fn read(
    site: &Site,
    (activity, sessions): (&Activity, &AgentSessions),
    owner: &AccountOwner,
    id: &str,
    cursor: Option<&str>,
    limit: u16,
) -> Result<SessionTimeline, PageError> {
    let id: Uuid = id.parse().map_err(|_| not_found(site, owner))?;
    let scope = activity.scope(&owner.account).await.map_err(PageError::of(site))?;
    let timeline =
        sessions.timeline(&scope, id, cursor, limit).await.map_err(|error| unreadable(site, owner, &error))?;
    timeline.ok_or_else(|| not_found(site, owner))
}

fn unreadable(site: &Site, owner: &AccountOwner, error: &AgentSessionError) -> PageError {
    match error {
        AgentSessionError::InvalidCursor => not_found(site, owner),
        AgentSessionError::External => external(site, owner),
        AgentSessionError::Log(error) => {
            tracing::warn!(error = domain::reasons(error), "a session could not be read");
            unavailable(site, owner, "The session is not available at the moment")
        }
    }
}

fn figures(session: &RecordedSession, cost: SessionCost) -> Vec<Figure> {
    let counts = session.counts;
    let length = session.last_ms.saturating_sub(session.first_ms);
    let failed = |number: i64| if number > 0 { format!("{number} failed") } else { String::new() };
    let figure = |name, value, note| Figure { name, value, note, is_bad: false };
    let mut figures = vec![
        figure("Length", duration(length), String::new()),
        figure("Working", duration(length - session.waiting_ms), String::new()),
        figure("Waiting", duration(session.waiting_ms), "for you".to_owned()),
        figure("Prompts", amount(counts.prompts), String::new()),
        Figure {
            is_bad: counts.failures > 0,
            ..figure("Tool calls", amount(counts.tool_calls), failed(counts.failures))
        },
        figure("Time in tools", duration(counts.tool_ms), String::new()),
    ];
    if session.files > 0 {
        figures.push(figure("Files", amount(session.files.into()), String::new()));
    }
    if counts.blocked > 0 {
        figures.push(Figure { is_bad: true, ..figure("Blocked", amount(counts.blocked), String::new()) });
    }
    if counts.subagents > 0 {
        figures.push(figure("Subagents", amount(counts.subagents), String::new()));
    }
    if counts.input_tokens + counts.output_tokens > 0 {
        let tokens = format!("{} → {}", amount(counts.input_tokens), amount(counts.output_tokens));
        figures.push(figure("Tokens, read → written", tokens, String::new()));
    }
    if let Some(words) = cost_words(cost) {
        let note = if cost.is_partial { "a model has no price" } else { "list price" };
        figures.push(figure("Costs", words, note.to_owned()));
    }
    figures
}

fn models(session: &RecordedSession) -> Vec<ModelLine> {
    let line = |used: &app::services::agent_sessions::RecordedModelUse| ModelLine {
        name: model_words(&used.model),
        calls: count(used.calls, "answer", "answers"),
        input: amount(used.input_tokens),
        output: amount(used.output_tokens),
    };
    session.models.iter().map(line).collect()
}

pub(super) fn not_found(site: &Site, owner: &AccountOwner) -> PageError {
    PageError::shown(
        site,
        Some(&owner.visitor),
        StatusCode::NOT_FOUND,
        PageErrorTexts {
            title: "No such session",
            text: "Your account has no session with this id. A session appears some seconds after its first event.",
            next: "The sessions page lists the sessions of your computers.",
            link: "/account/sessions".into(),
            label: "Sessions",
        },
    )
}
