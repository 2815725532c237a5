//! `attache event tail`: polls for new events and prints them.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use clap::Args;
use client::{ActivityQuery, Client, Error};
use domain::clock::date_time;
use domain::foreign::visible;
use domain::lane::Lane;
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};
use wire::activity::Unclassified;

use crate::activity::{cut, sentence};
use crate::connection::{CredentialArgs, Remote, RequestError};
use crate::failure::Done;
use crate::{output, terminal};

/// Pause between two requests.
const EVERY: Duration = Duration::from_secs(2);

/// Events per page.
const PAGE: u16 = 100;

/// Maximum length of a sentence in characters.
const SENTENCE_MAX: usize = 40;

/// Maximum number of remembered keys of printed entries.
const SHOWN_MAX: usize = 20_000;

/// Options of `attache event tail`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Show only events of this lane; held events have no lane and are always shown
    #[arg(long)]
    lane: Option<Lane>,
    /// Begin with all events since this time: a date-time or epoch milliseconds
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Begin with this number of the newest events
    #[arg(long, value_name = "N", default_value_t = 10, conflicts_with = "since")]
    lines: usize,
    /// Exit after this number of events
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    #[command(flatten)]
    whom: CredentialArgs,
    #[command(flatten)]
    remote: Remote,
}

/// Prints new events until Ctrl-C, or until the reader of standard output has gone.
pub async fn run(arguments: &Arguments) -> Done {
    tokio::select! {
        followed = follow(arguments) => followed,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

async fn follow(arguments: &Arguments) -> Done {
    let mut connection = arguments.remote.open()?;
    let mut shown = Shown::default();
    let mut left = arguments.count.unwrap_or(usize::MAX);
    let mut is_away = false;
    let mut looks = interval(EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        if output::is_unread() {
            return Ok(());
        }
        let is_first = shown.is_empty();
        let look = async |client: &Client| new_ones(client, arguments, &mut shown).await;
        let mut entries = match connection.send_as(arguments.whom, look).await {
            Ok(entries) => entries,
            // Continue when the server is available again.
            Err(RequestError::Request(error)) if error.is_temporary() && !is_first => {
                if !is_away {
                    output::print_error(&format!("{error}; retrying every {} s", EVERY.as_secs()));
                }
                is_away = true;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        is_away = false;
        if is_first && arguments.since.is_none() {
            entries.drain(..entries.len().saturating_sub(arguments.lines));
        }
        for entry in entries.into_iter().take(left) {
            entry.print(arguments.remote.json);
            left -= 1;
        }
        if left == 0 {
            return Ok(());
        }
    }
}

/// Requests the entries that were not printed yet, oldest first.
async fn new_ones(client: &Client, arguments: &Arguments, shown: &mut Shown) -> Result<Vec<Entry>, Error> {
    let is_first = shown.is_empty();
    let (mut entries, mut cursor) = (Vec::new(), None);
    loop {
        let is_first_page = cursor.is_none();
        let query = ActivityQuery { limit: Some(PAGE), cursor, since: arguments.since.clone(), lane: arguments.lane };
        let page = client.activity(&query).await?;
        if is_first_page {
            entries.extend(page.unclassified.into_iter().flatten().map(Entry::Held));
        }
        let events = page.upstream.get("events").and_then(Value::as_array).cloned().unwrap_or_default();
        let known = events.iter().any(|event| shown.has(&key(event)));
        entries.extend(events.into_iter().map(Entry::Event));
        cursor = page.upstream.get("next_cursor").and_then(Value::as_str).map(str::to_owned);
        // The first request goes back as far as the options require, later ones to the entries of the previous request.
        let enough = if is_first { arguments.since.is_none() && entries.len() >= arguments.lines } else { known };
        if cursor.is_none() || enough {
            break;
        }
    }
    entries.retain(|entry| shown.is_new(entry.key()));
    shown.looked = true;
    entries.sort_by_key(Entry::received_at);
    Ok(entries)
}

enum Entry {
    Event(Value),
    Held(Unclassified),
}

impl Entry {
    fn key(&self) -> String {
        match self {
            Self::Event(event) => key(event),
            Self::Held(held) => json!(held).to_string(),
        }
    }

    fn received_at(&self) -> String {
        match self {
            Self::Event(event) => text(event, "received_at").to_owned(),
            Self::Held(held) => date_time(held.received_at),
        }
    }

    fn print(&self, is_json: bool) {
        match self {
            Self::Event(event) if is_json => output::print_json_line(event),
            Self::Held(held) if is_json => {
                let mut value = json!(held);
                value["held"] = json!(true);
                output::print_json_line(&value);
            }
            Self::Event(event) => output::print(&format!(
                "{}  {:<40}  {}  {}",
                terminal::styled(terminal::FAINT, visible(text(event, "received_at"))),
                visible(&cut(&sentence(event), SENTENCE_MAX)),
                visible(text(event, "event_id")),
                terminal::styled(terminal::FAINT, format!("{} seq {}", visible(text(event, "agent_id")), event["seq"])),
            )),
            Self::Held(held) => output::print(&format!(
                "{}  {:<40}  {}  {}",
                terminal::styled(terminal::FAINT, date_time(held.received_at)),
                visible(held.event_type.as_deref().unwrap_or("-")),
                visible(held.event_id.as_deref().unwrap_or("-")),
                terminal::styled(terminal::WARNING, format!("held: {}", visible(&held.reason))),
            )),
        }
    }
}

fn key(event: &Value) -> String {
    format!("{} {}", text(event, "event_id"), text(event, "receipt_id"))
}

fn text<'v>(event: &'v Value, name: &str) -> &'v str {
    event.get(name).and_then(Value::as_str).unwrap_or("-")
}

/// Keys of the printed entries, so that no entry is printed twice.
#[derive(Debug, Default)]
struct Shown {
    keys: BTreeSet<String>,
    order: VecDeque<String>,
    looked: bool,
}

impl Shown {
    fn is_empty(&self) -> bool {
        !self.looked
    }

    fn has(&self, key: &str) -> bool {
        self.keys.contains(key)
    }

    fn is_new(&mut self, key: String) -> bool {
        if !self.keys.insert(key.clone()) {
            return false;
        }
        self.order.push_back(key);
        if self.order.len() > SHOWN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.keys.remove(&oldest);
        }
        true
    }
}
