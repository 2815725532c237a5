//! `attache activity`: shows recorded events, newest first, and held events.

use std::collections::BTreeMap;

use clap::Args;
use client::{ActivityQuery, Client};
use domain::Timestamp;
use domain::lane::Lane;
use domain::registry::{Summary, Tone};
use serde_json::{Value, json};
use wire::activity::{ActivityPage, Unclassified};

use crate::connection::{CredentialArgs, CredentialKind, ProfileConnection, Remote, failed};
use crate::failure::{Done, Failure};
use crate::terminal::{FAINT, STRONG, WARNING};
use crate::{consent, moment, output, terminal};

/// Options of `attache activity`.
#[derive(Debug, Args)]
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
    /// Show exact times, whole ids and sentences, types, lanes and levels, however wide the table becomes
    #[arg(long)]
    wide: bool,
    /// Show the whole account; the default if the key of this profile may read it
    #[arg(long, conflicts_with = "whom")]
    account: bool,
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
    let whom = if arguments.account { connection.account_reader()? } else { arguments.whom };
    let limit = Some(if arguments.all { LIMIT_MAX } else { arguments.limit });
    let query = ActivityQuery { limit, cursor: arguments.cursor, since: arguments.since, lane: arguments.lane };
    let is_filtered = query.lane.is_some() || query.since.is_some() || query.cursor.is_some();
    let (mut page, whom) = connection.read_account(whom, async |client| client.activity(&query).await).await?;
    if arguments.all {
        let client = connection.as_whom(whom).await?;
        follow(&client, query, &mut page).await?;
    }
    let value = serde_json::to_value(&page).map_err(Failure::caused)?;
    let is_of_computer = match whom.whom {
        Some(kind) => kind == CredentialKind::Computer,
        None => connection.profile.machine.is_some() && std::env::var_os("ATTACHE_TOKEN").is_none(),
    };
    // A computer reads only its own events.
    let names = match (is_of_computer, connection.json) {
        (true, _) => None,
        (false, true) => Some(BTreeMap::new()),
        (false, false) => Some(names(&mut connection, whom).await),
    };
    let table = EventTable { is_wide: arguments.wide, now: connection.clock().now(), names };
    let others = is_of_computer.then(|| events_of_others(&connection));
    output::show(connection.json, &value, || match (is_filtered, &others) {
        (true, _) => table.shown(&page, "no recorded events match", None),
        (false, Some(others)) => {
            table.shown(&page, &format!("no events recorded by this computer yet; {others}"), Some(others))
        }
        (false, None) => table.shown(&page, "no events recorded in this account", None),
    });
    Ok(())
}

/// The names of the account's computers; the ones without a name, and all after a failure, are shown by their ids.
async fn names(connection: &mut ProfileConnection, whom: CredentialArgs) -> BTreeMap<String, String> {
    let computers = connection.send_as(whom, async |client| client.account_computers().await).await;
    let computers = computers.map(|answer| answer.computers).unwrap_or_default();
    let mut names: BTreeMap<String, String> = computers
        .into_iter()
        .filter_map(|computer| Some((computer.machine_uuid.to_string(), computer.label?)))
        .collect();
    if let Some(machine) = &connection.profile.machine {
        names.entry(machine.machine_uuid.to_string()).or_insert_with(|| "this computer".to_owned());
    }
    names
}

/// Where the events of the other computers are.
fn events_of_others(connection: &ProfileConnection) -> String {
    if connection.account_reader().is_ok() {
        "`attache activity --account` shows the account's".to_owned()
    } else {
        format!("{}/account/activity shows the account's", connection.client.base_url())
    }
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

/// The layout of the tables: short ids and relative times fit 80 columns.
struct EventTable {
    is_wide: bool,
    now: Timestamp,
    /// Names of computers by their ids; `None` if all events are of one computer.
    names: Option<BTreeMap<String, String>>,
}

/// Characters of a sentence with which the widest other columns fit 80 columns.
const SENTENCE_CHARS: usize = 38;
/// Characters of a computer's name; as many as the longest agent kind has.
const NAME_CHARS: usize = 17;

impl EventTable {
    /// `nothing` replaces an empty table; `others` says which events the table leaves out.
    fn shown(&self, page: &ActivityPage, nothing: &str, others: Option<&str>) -> String {
        let Some(Value::Array(events)) = page.upstream.get("events") else {
            // An external statistics service may use another format.
            return output::layout(&json!(page.upstream));
        };
        let mut parts = vec![if events.is_empty() { nothing.to_owned() } else { self.events(events) }];
        if let Some(held) = page.unclassified.as_ref().filter(|held| !held.is_empty()) {
            let more = if page.unclassified_truncated == Some(true) { " (newest only)" } else { "" };
            parts.push(format!(
                "{}\n{}",
                terminal::styled(
                    WARNING,
                    format!(
                        "held{more}: not recorded, for the reason given, until the sender corrects and resends them"
                    )
                ),
                self.held(held),
            ));
        }
        if let Some(cursor) = page.upstream.get("next_cursor").and_then(Value::as_str) {
            parts.push(format!(
                "{} --cursor {}",
                terminal::styled(FAINT, "next page:"),
                terminal::styled(STRONG, cursor)
            ));
        }
        if let Some(others) = others.filter(|_| !events.is_empty()) {
            parts.push(terminal::styled(FAINT, format!("the events of this computer; {others}")));
        }
        parts.join("\n\n")
    }

    fn events(&self, events: &[Value]) -> String {
        let text = |event: &Value, name: &str| event.get(name).and_then(Value::as_str).unwrap_or("-").to_owned();
        if self.is_wide {
            let columns = ["received", "what", "lane", "type", "computer", "agent", "level", "event"];
            let row = |event: &Value| {
                let members = ["lane", "event_type", "machine_uuid", "agent_id", "consent_level", "event_id"];
                let received = moment::seconds(&text(event, "received_at"));
                [received, sentence(event)].into_iter().chain(members.map(|name| text(event, name))).collect()
            };
            return output::wide_table(&columns, events.iter().map(row));
        }
        let row = |event: &Value| {
            let machine = text(event, "machine_uuid");
            vec![
                moment::ago_of(&text(event, "received_at"), self.now),
                cut(&sentence(event), SENTENCE_CHARS),
                match &self.names {
                    Some(names) => {
                        names.get(&machine).map_or_else(|| moment::short(&machine), |name| cut(name, NAME_CHARS))
                    }
                    None => text(event, "agent_id"),
                },
                moment::short(&text(event, "event_id")),
            ]
        };
        let source = if self.names.is_some() { "computer" } else { "agent" };
        output::table(&["received", "what", source, "event"], events.iter().map(row))
    }

    fn held(&self, held: &[Unclassified]) -> String {
        let text = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".to_owned());
        if self.is_wide {
            let row = |held: &Unclassified| {
                let received = held.received_at.format("%Y-%m-%d %H:%M:%S").to_string();
                let (event_type, agent) = (text(&held.event_type), text(&held.agent_id));
                vec![received, held.reason.clone(), event_type, text(&held.machine_uuid), agent, text(&held.event_id)]
            };
            let columns = ["received", "reason", "type", "computer", "agent", "event"];
            return output::wide_table(&columns, held.iter().map(row));
        }
        let row = |held: &Unclassified| {
            let received = moment::ago(held.received_at, self.now);
            let event_type = held.event_type.clone().unwrap_or_else(|| "-".to_owned());
            vec![received, held.reason.clone(), event_type, moment::short(&text(&held.event_id))]
        };
        output::table(&["received", "reason", "type", "event"], held.iter().map(row))
    }
}

/// The sentence of an event with the word of its tone; its type if an external service sent none.
pub fn sentence(event: &Value) -> String {
    let text = |name: &str| event.get(name).and_then(Value::as_str);
    let Some(summary) = text("summary") else { return text("event_type").unwrap_or("-").to_owned() };
    let tone = match text("tone").map(str::parse::<Tone>) {
        Some(Ok(tone)) => tone,
        // A later server may have further tones.
        Some(Err(_)) | None => Tone::Plain,
    };
    Summary { text: summary.to_owned(), tone }.sentence()
}

/// A text of at most `chars_max` characters; a longer one ends with `…`.
pub fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let begin: String = text.chars().take(chars_max.saturating_sub(1)).collect();
    format!("{}…", begin.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_fit_80_columns_and_wide_ones_have_whole_ids() {
        let id = "019b76da-a800-7274-8acf-2e56e162ebd9";
        let event = json!({
            "received_at": "2026-01-01T00:00:00.000Z", "lane": "identity", "event_type": "rsi.retrospective_completed",
            "machine_uuid": id, "agent_id": "svc-control-plane", "consent_level": "metadata-only", "event_id": id,
        });
        let of = |is_wide, names| EventTable { is_wide, now: Timestamp::UNIX_EPOCH, names };
        let long = "Ran Bash · exit status 101 · an_unusually_long_kind_of_error".to_owned();
        let names = BTreeMap::from([(id.to_owned(), "The laptop in the kitchen".to_owned())]);
        for (names, source) in
            [(None, "svc-control-plane"), (Some(BTreeMap::new()), "…e162ebd9"), (Some(names), "The laptop in th…")]
        {
            let mut event = event.clone();
            let plain = of(false, names.clone()).events(std::slice::from_ref(&event));
            assert!(plain.contains("rsi.retrospective_completed"), "{plain}");
            event["summary"] = json!(long);
            event["tone"] = json!("failed");
            let narrow = of(false, names).events(std::slice::from_ref(&event));
            assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
            assert!(narrow.contains("…e162ebd9") && !narrow.contains(id), "{narrow}");
            assert!(narrow.contains(source) && narrow.contains("Ran Bash · exit status 101 · an_unusu…"), "{narrow}");
            assert!(of(true, None).events(&[event]).contains(&format!("{long} · failed")));
        }
        let wide = of(true, None).events(&[event]);
        assert!(wide.contains(id) && wide.contains("2026-01-01 00:00:00") && wide.contains("metadata-only"), "{wide}");
        assert!(wide.lines().count() == 2, "{wide}");
    }
}
