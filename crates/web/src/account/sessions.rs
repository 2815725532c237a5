//! Sessions of agents: a filtered list, the one with the newest event first.
//!
//! | module | content |
//! |---|---|
//! | [`one`] | a session with its timeline |
//! | [`live`] | the changes of a session while it runs |

pub mod live;
pub mod one;
mod timeline;
pub(super) mod words;

use app::services::activity::browse::Activity;
use app::services::agent_sessions::costs::{MicroDollars, SessionCost};
use app::services::agent_sessions::{AgentSessionError, AgentSessions, RecordedSession, SessionFilter};
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, TimeDelta};
use domain::Timestamp;
use domain::usage::Day;
use serde::Deserialize;

use self::words::{count, duration};
use super::AccountOwner;
use super::activity::computers::{ComputerChoice, Computers};
use super::activity::rows::agent_title;
use crate::visitor::quoted;
use crate::{Moment, PageError, PageErrorTexts, PageLayout, PageQuery, PageResult, Site, page};

/// Sessions of a page.
const PAGE_SESSIONS: u16 = 50;
/// Time since the newest event after which a session without an end does not count as running.
const RUNNING_WITHIN: TimeDelta = TimeDelta::minutes(10);
/// Maximum number of characters of a parameter; longer ones are truncated.
const TEXT_MAX: usize = 200;

#[derive(Template)]
#[template(path = "account/sessions.html")]
struct SessionsPage {
    frame: PageLayout,
    tab: &'static str,
    query: SessionsQuery,
    computers: Vec<ComputerChoice>,
    agents: Vec<(String, bool)>,
    is_filtered: bool,
    is_first: bool,
    /// `None` if the statistics service is external, or does not answer.
    rows: Option<Vec<SessionLine>>,
    is_available: bool,
    next: Option<String>,
}

/// `?computer&agent&project&day&cursor`; an empty or unreadable value is no restriction.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct SessionsQuery {
    computer: String,
    agent: String,
    project: String,
    day: String,
    cursor: String,
}

/// A session in words.
struct SessionLine {
    id: String,
    title: String,
    agent: String,
    computer: String,
    state: SessionState,
    facts: String,
    failures: i64,
    received: Moment,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionState {
    Running,
    Ended,
    /// No event for a while, and none that ends it.
    Quiet,
}

impl SessionsQuery {
    fn filter(&self) -> SessionFilter {
        let some = |text: &str| Some(text.chars().take(TEXT_MAX).collect::<String>()).filter(|text| !text.is_empty());
        let day = self.day.parse::<Day>().ok();
        SessionFilter {
            limit: PAGE_SESSIONS,
            cursor: some(&self.cursor),
            since: day.map(|day| day.begin().timestamp_millis()),
            until: day.map(|day| day.next().begin().timestamp_millis()),
            machine: self.computer.parse().ok(),
            agent: some(&self.agent),
            project: some(&self.project).filter(|project| !project.contains('\0')),
        }
    }

    /// The day, as the value of its field.
    fn day(&self) -> &str {
        if self.day.parse::<Day>().is_ok() { &self.day } else { "" }
    }

    fn project(&self) -> &str {
        &self.project
    }

    /// The address of the page with this cursor.
    fn at(&self, cursor: &str) -> String {
        let members = [
            ("computer", self.computer.as_str()),
            ("agent", &self.agent),
            ("project", &self.project),
            ("day", &self.day),
            ("cursor", cursor),
        ];
        let members = members.into_iter().filter(|(_, value)| !value.is_empty());
        let parameters: Vec<String> = members.map(|(name, value)| format!("{name}={}", quoted(value))).collect();
        format!("?{}", parameters.join("&"))
    }
}

/// `GET /account/sessions`
pub async fn show(
    State(site): State<Site>,
    State(activity): State<Activity>,
    State(sessions): State<AgentSessions>,
    owner: AccountOwner,
    PageQuery(query): PageQuery<SessionsQuery>,
) -> PageResult {
    let now = site.ports.clock.now();
    let scope = activity.scope(&owner.account).await.map_err(PageError::of(&site))?;
    let computers = Computers::of(&site, &owner.account, &scope).await?;
    let filter = query.filter();
    let result = match sessions.list(&scope, &filter).await {
        // An address that was cut: the first page is shown.
        Err(AgentSessionError::InvalidCursor) => {
            sessions.list(&scope, &SessionFilter { cursor: None, ..filter.clone() }).await
        }
        result => result,
    };
    let result = result.inspect_err(|error| {
        if !matches!(error, AgentSessionError::External) {
            tracing::warn!(error = domain::reasons(error), "sessions could not be read");
        }
    });
    let list = result.ok();
    let next = list.as_ref().and_then(|page| page.next.as_deref()).map(|cursor| query.at(cursor));
    let rows = list
        .map(|page| page.sessions.iter().map(|session| SessionLine::of(session, &sessions, &computers, now)).collect());
    let agent = |name: &String| (name.clone(), filter.agent.as_deref() == Some(name));
    Ok(page(
        StatusCode::OK,
        &SessionsPage {
            frame: PageLayout::new(&site, Some(&owner.visitor)),
            tab: "sessions",
            computers: computers.choices(filter.machine),
            agents: activity.choices().agents.iter().map(agent).collect(),
            is_filtered: SessionFilter {
                limit: filter.limit,
                cursor: filter.cursor.clone(),
                ..SessionFilter::default()
            } != filter,
            is_first: filter.cursor.is_none(),
            rows,
            is_available: sessions.is_available(),
            next,
            query,
        },
    ))
}

impl SessionLine {
    fn of(session: &RecordedSession, sessions: &AgentSessions, computers: &Computers, now: Timestamp) -> Self {
        Self {
            id: session.id.to_string(),
            title: title(session),
            agent: agent_title(&session.agent).to_owned(),
            computer: computers.name(session.machine).to_owned(),
            state: SessionState::of(session, now),
            facts: facts(session, sessions).join(" · "),
            failures: session.counts.failures,
            received: moment(session.received_at_ms, now),
        }
    }
}

/// The length, the counts and the costs of a session, in words.
pub(crate) fn facts(session: &RecordedSession, sessions: &AgentSessions) -> Vec<String> {
    let counts = session.counts;
    let mut facts = vec![duration(session.last_ms.saturating_sub(session.first_ms))];
    let mut add = |number: i64, one: &str, many: &str| {
        facts.extend((number > 0).then(|| count(number, one, many)));
    };
    add(counts.prompts, "prompt", "prompts");
    add(counts.tool_calls, "tool call", "tool calls");
    add(session.files.into(), "file", "files");
    add(counts.blocked, "blocked action", "blocked actions");
    add(counts.input_tokens + counts.output_tokens, "token", "tokens");
    facts.extend(cost_words(sessions.cost_of(&session.models)));
    facts
}

impl SessionState {
    fn of(session: &RecordedSession, now: Timestamp) -> Self {
        let received = DateTime::from_timestamp_millis(session.received_at_ms).unwrap_or_default();
        match session.ended_ms {
            Some(_) => Self::Ended,
            None if now - received < RUNNING_WITHIN => Self::Running,
            None => Self::Quiet,
        }
    }
}

/// "$0.61", "at least $0.61"; `None` without a price.
fn cost_words(cost: SessionCost) -> Option<String> {
    let least = if cost.is_partial { "at least " } else { "" };
    (cost.priced > MicroDollars::default()).then(|| format!("{least}{}", cost.priced))
}

/// The working folder, or the project, or the agent.
fn title(session: &RecordedSession) -> String {
    match (&session.folder, &session.project) {
        (Some(folder), _) => domain::foreign::visible(folder),
        (None, Some(project)) => format!("Project {}", project_words(project)),
        (None, None) => format!("Session of {}", agent_title(&session.agent)),
    }
}

/// A project as people read it: hooks send a digest, of which the start is enough to recognise it.
pub(super) fn project_words(project: &str) -> String {
    const DIGITS: usize = 8;
    let is_digest = project.len() > 2 * DIGITS && project.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let text = if is_digest { format!("{}…", &project[..DIGITS]) } else { project.to_owned() };
    domain::foreign::visible(&text)
}

fn moment(millis: i64, now: Timestamp) -> Moment {
    Moment::new(DateTime::from_timestamp_millis(millis).unwrap_or_default(), now)
}

/// A model as people read it.
pub(super) fn model_words(name: &str) -> String {
    if name.is_empty() { "Not named".to_owned() } else { domain::foreign::visible(name) }
}

/// The page in place of one that needs the log, which does not answer.
pub(super) fn unavailable(site: &Site, owner: &AccountOwner, title: &'static str) -> PageError {
    PageError::shown(
        site,
        Some(&owner.visitor),
        StatusCode::SERVICE_UNAVAILABLE,
        PageErrorTexts {
            title,
            text: "The log does not answer. Nothing is lost.",
            next: "Reload this page later.",
            link: "/account/sessions".into(),
            label: "Sessions",
        },
    )
}

pub(super) fn external(site: &Site, owner: &AccountOwner) -> PageError {
    PageError::shown(
        site,
        Some(&owner.visitor),
        StatusCode::NOT_IMPLEMENTED,
        PageErrorTexts {
            title: "No sessions on this server",
            text: "The statistics service is external: it does not group events into sessions.",
            next: "The activity page shows the recorded events.",
            link: "/account/activity".into(),
            label: "Activity",
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_its_filters_and_unreadable_values_restrict_nothing() {
        let query: SessionsQuery =
            serde_urlencoded::from_str("computer=x&agent=codex&day=2026-02-30&project=a%26b&cursor=y").unwrap();
        let filter = query.filter();
        assert_eq!((filter.machine, filter.since, filter.agent.as_deref()), (None, None, Some("codex")));
        assert_eq!(query.day(), "");
        assert_eq!(query.at("z"), "?computer=x&agent=codex&project=a%26b&day=2026%2D02%2D30&cursor=z");
    }

    #[test]
    fn a_digest_of_a_project_is_shortened() {
        assert_eq!(project_words("0123456789abcdef0123456789abcdef"), "01234567…");
        assert_eq!(project_words("shop"), "shop");
    }
}
