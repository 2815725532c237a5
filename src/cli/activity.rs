//! `attache activity`: shows recorded events, newest first, and held events.

use clap::Args;
use client::{ActivityQuery, Client};
use domain::lane::Lane;
use serde_json::{Value, json};
use wire::activity::{ActivityPage, Unclassified};

use super::connection::{CredentialArgs, Remote, failed};
use super::failure::{Done, Failure};
use super::terminal::{FAINT, STRONG, WARNING};
use super::{consent, output, terminal};

/// Options of `attache activity`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  attache activity --limit 10 --lane llm\n  attache activity --since 2026-01-01T00:00:00Z --all --json"
)]
pub struct Arguments {
    /// Number of events per page, 1 to 500
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
    /// Show only events of this lane
    #[arg(long, value_parser = consent::lanes())]
    lane: Option<Lane>,
    /// Show only events since this time: a date-time (2026-01-31T12:00:00Z) or epoch milliseconds
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Show the page at this cursor, which the page before printed
    #[arg(long)]
    cursor: Option<String>,
    /// Show all pages
    #[arg(long, conflicts_with_all = ["cursor", "limit"])]
    all: bool,
    #[command(flatten)]
    whom: CredentialArgs,
    #[command(flatten)]
    remote: Remote,
}

/// Requests and prints activity pages.
pub async fn activity(arguments: Arguments) -> Done {
    /// Page size with `--all`.
    const LIMIT_MAX: u16 = 500;
    let mut connection = arguments.remote.open()?;
    let limit = Some(if arguments.all { LIMIT_MAX } else { arguments.limit });
    let query = ActivityQuery { limit, cursor: arguments.cursor, since: arguments.since, lane: arguments.lane };
    let is_filtered = query.lane.is_some() || query.since.is_some() || query.cursor.is_some();
    let mut page = connection.send_as(arguments.whom, async |client| client.activity(&query).await).await?;
    if arguments.all {
        let client = connection.as_whom(arguments.whom).await?;
        follow(&client, query, &mut page).await?;
    }
    let known = serde_json::to_value(&page).map_err(Failure::caused)?;
    output::show(connection.json, &known, || shown(&page, is_filtered));
    Ok(())
}

/// Requests all following pages and appends their events to `page`.
async fn follow(client: &Client, mut query: ActivityQuery, page: &mut ActivityPage) -> Result<(), Failure> {
    while let Some(cursor) = page.upstream.get("next_cursor").and_then(Value::as_str) {
        query.cursor = Some(cursor.to_owned());
        let mut next = client.activity(&query).await.map_err(failed)?;
        if let (Some(Value::Array(events)), Some(Value::Array(more))) =
            (page.upstream.get_mut("events"), next.upstream.get_mut("events"))
        {
            events.append(more);
        }
        page.upstream.insert("next_cursor".to_owned(), next.upstream.remove("next_cursor").unwrap_or_default());
    }
    Ok(())
}

fn shown(page: &ActivityPage, is_filtered: bool) -> String {
    let Some(Value::Array(events)) = page.upstream.get("events") else {
        // An external statistics service may use another format.
        return output::layout(&json!(page.upstream));
    };
    let mut parts = vec![if events.is_empty() {
        if is_filtered { "no recorded events match" } else { "no events recorded" }.to_owned()
    } else {
        output::table(&["received", "lane", "type", "agent", "level", "event"], events.iter().map(event))
    }];
    if let Some(held) = page.unclassified.as_ref().filter(|held| !held.is_empty()) {
        let more = if page.unclassified_truncated == Some(true) { " (newest only)" } else { "" };
        parts.push(format!(
            "{}\n{}",
            terminal::styled(
                WARNING,
                format!("held{more}: not recorded, for the reason given, until the sender corrects and resends them")
            ),
            output::table(&["received", "reason", "type", "agent", "event"], held.iter().map(held_event)),
        ));
    }
    if let Some(cursor) = page.upstream.get("next_cursor").and_then(Value::as_str) {
        parts.push(format!("{} --cursor {}", terminal::styled(FAINT, "next page:"), terminal::styled(STRONG, cursor)));
    }
    parts.join("\n\n")
}

fn event(event: &Value) -> Vec<String> {
    let text = |name| event.get(name).and_then(Value::as_str).unwrap_or("-").to_owned();
    vec![
        seconds(&text("received_at")),
        text("lane"),
        text("event_type"),
        text("agent_id"),
        text("consent_level"),
        text("event_id"),
    ]
}

fn held_event(held: &Unclassified) -> Vec<String> {
    let or_dash = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".to_owned());
    let received = held.received_at.format("%Y-%m-%d %H:%M:%S").to_string();
    vec![received, held.reason.clone(), or_dash(&held.event_type), or_dash(&held.agent_id), or_dash(&held.event_id)]
}

/// A date-time with a precision of seconds, for tables.
fn seconds(moment: &str) -> String {
    moment.get(..19).map_or_else(|| moment.to_owned(), |moment| moment.replace('T', " "))
}
