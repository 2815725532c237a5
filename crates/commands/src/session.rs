//! `attache session`: sessions of agents, and the events of one. `attache admin session` is about browsers that are signed in.

use clap::{Args, Subcommand};
use client::{SessionQuery, TimelineQuery};
use domain::Timestamp;
use domain::foreign::visible;
use domain::ids::MachineUuid;
use uuid::Uuid;
use wire::agent_session::{AgentSession, AgentSessionPage, AgentSessionTimeline, ModelUse, SessionEvent};

use crate::connection::{CredentialArgs, Remote};
use crate::failure::{Done, Failure};
use crate::terminal::{FAINT, STRONG};
use crate::{moment, output, terminal};

/// Subcommands of `attache session`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List sessions, the one with the newest event first
    List(ListArguments),
    /// Show a session and its newest events
    Show {
        /// Id of the session, from `attache session list --wide`
        id: Uuid,
        /// Number of events, 1 to 200
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=200))]
        limit: u16,
        /// Show the page at this cursor, which the page before printed
        #[arg(long)]
        cursor: Option<String>,
        #[command(flatten)]
        whom: CredentialArgs,
        #[command(flatten)]
        remote: Remote,
    },
}

/// Options of `attache session list`.
#[derive(Debug, Args)]
pub struct ListArguments {
    /// Number of sessions per page, 1 to 200
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=200))]
    limit: u16,
    /// Show only sessions with an event since this time: a date-time (2026-01-31T12:00:00Z) or epoch milliseconds
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Show only sessions with their newest event received on this UTC day (2026-01-31)
    #[arg(long)]
    day: Option<String>,
    /// Show only sessions of this agent kind
    #[arg(long)]
    agent: Option<String>,
    /// Show only sessions of this project
    #[arg(long)]
    project: Option<String>,
    /// Show only sessions on this computer
    #[arg(long, value_name = "MACHINE_UUID")]
    computer: Option<MachineUuid>,
    /// Show the page at this cursor, which the page before printed
    #[arg(long)]
    cursor: Option<String>,
    /// Show whole ids
    #[arg(long)]
    wide: bool,
    #[command(flatten)]
    whom: CredentialArgs,
    #[command(flatten)]
    remote: Remote,
}

/// Runs the subcommand.
pub async fn run(command: Command) -> Done {
    match command {
        Command::List(arguments) => list(arguments).await,
        Command::Show { id, limit, cursor, whom, remote } => {
            let mut connection = remote.open()?;
            let query = TimelineQuery { limit: Some(limit), cursor };
            let timeline = connection.send_as(whom, async |client| client.agent_session(id, &query).await).await?;
            let value = serde_json::to_value(&timeline).map_err(Failure::caused)?;
            output::show(connection.json, &value, || timeline_text(&timeline));
            Ok(())
        }
    }
}

async fn list(arguments: ListArguments) -> Done {
    let ListArguments { limit, since, day, agent, project, computer, cursor, wide, whom, remote } = arguments;
    let mut connection = remote.open()?;
    let query = SessionQuery { limit: Some(limit), cursor, since, day, agent, project, computer };
    let page = connection.send_as(whom, async |client| client.agent_sessions(&query).await).await?;
    let value = serde_json::to_value(&page).map_err(Failure::caused)?;
    let now = connection.clock().now();
    output::show(connection.json, &value, || page_text(&page, wide, now));
    Ok(())
}

fn page_text(page: &AgentSessionPage, is_wide: bool, now: Timestamp) -> String {
    if page.sessions.is_empty() {
        return "no sessions; `attache connect TOOL` records those of a coding agent".to_owned();
    }
    let row = |session: &AgentSession| {
        let id = session.id.to_string();
        vec![
            moment::ago(session.received_at, now),
            visible(session.folder.as_deref().or(session.project_id.as_deref()).unwrap_or("-")),
            session.agent_id.clone(),
            duration(session.last_ms.saturating_sub(session.started_ms)),
            session.tool_calls.to_string(),
            session.failures.to_string(),
            (session.input_tokens + session.output_tokens).to_string(),
            if is_wide { id } else { moment::short(&id) },
        ]
    };
    let columns = ["last", "project", "agent", "length", "tools", "failed", "tokens", "session"];
    let rows = page.sessions.iter().map(row);
    let mut text = if is_wide { output::wide_table(&columns, rows) } else { output::table(&columns, rows) };
    text.push_str(&next_page(page.next_cursor.as_deref()));
    text
}

fn timeline_text(timeline: &AgentSessionTimeline) -> String {
    let AgentSessionTimeline { session, events, next_cursor } = timeline;
    let length = session.last_ms.saturating_sub(session.started_ms);
    let title = visible(session.folder.as_deref().or(session.project_id.as_deref()).unwrap_or("no project"));
    let mut lines = vec![
        format!("{} · {} on {}", terminal::styled(STRONG, title), session.agent_id, session.machine_uuid),
        format!("{} long, {} of it waiting", duration(length), duration(session.waiting_ms)),
        format!(
            "{} events, {} prompts, {} tool calls, {} failed, {} files",
            session.events, session.prompts, session.tool_calls, session.failures, session.files
        ),
    ];
    lines.extend(session.models.iter().map(model_text));
    let row = |event: &SessionEvent| {
        let result = match event.succeeded {
            Some(false) => "failed",
            _ => "",
        };
        vec![
            Timestamp::from_timestamp_millis(event.ts_edge_ms)
                .map(|at| at.format("%H:%M:%S").to_string())
                .unwrap_or_default(),
            visible(&event.summary),
            result.to_owned(),
            event.duration_ms.and_then(|millis| i64::try_from(millis).ok()).map(duration).unwrap_or_default(),
            moment::short(&event.event_id.to_string()),
        ]
    };
    let table = output::table(&["time", "event", "result", "duration", "id"], events.iter().map(row));
    format!("{}\n\n{table}{}", lines.join("\n"), next_page(next_cursor.as_deref()))
}

fn model_text(used: &ModelUse) -> String {
    let name = visible(used.model.as_deref().unwrap_or("model not named"));
    format!("{name}: {} answers, {} tokens read, {} written", used.calls, used.input_tokens, used.output_tokens)
}

fn next_page(cursor: Option<&str>) -> String {
    let line =
        |cursor| format!("\n\n{} --cursor {}", terminal::styled(FAINT, "next page:"), terminal::styled(STRONG, cursor));
    cursor.map(line).unwrap_or_default()
}

/// "8 s", "42 min", "3 h 5 min".
fn duration(millis: i64) -> String {
    let seconds = millis.max(0) / 1_000;
    match seconds {
        0 => format!("{} ms", millis.max(0)),
        1..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_readable_unit() {
        assert_eq!([400, 8_000, 150_000, 11_100_000].map(duration), ["400 ms", "8 s", "2 min", "3 h 5 min"]);
    }
}
