//! `attache event tail`: what comes in, as it comes.

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

use crate::cli::remote::{CredentialArgs, Remote, RequestError};
use crate::cli::{Done, output, terminal};

/// Between two looks.
const EVERY: Duration = Duration::from_secs(2);

/// Entries asked for at once.
const PAGE: u16 = 100;

/// Entries that are remembered as shown.
const SHOWN_MAX: usize = 20_000;

/// What to follow.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Only events of this lane; held events are in no lane, and are shown all the same
    #[arg(long)]
    lane: Option<Lane>,
    /// Begin with everything since then: a date-time or epoch milliseconds
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Begin with so many of the newest
    #[arg(long, value_name = "N", default_value_t = 10, conflicts_with = "since")]
    lines: usize,
    /// End after so many
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    #[command(flatten)]
    whom: CredentialArgs,
    #[command(flatten)]
    remote: Remote,
}

/// Does it, until Ctrl-C, or until nobody reads it any more.
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
        let mut entries = match connection.asked(arguments.whom, look).await {
            Ok(entries) => entries,
            // Whoever follows wants to go on when the server is back.
            Err(RequestError::Asking(error)) if error.is_temporary() && !is_first => {
                if !is_away {
                    output::complain(&format!("{error}; looking again every {} s", EVERY.as_secs()));
                }
                is_away = true;
                continue;
            }
            Err(trouble) => return Err(trouble.into()),
        };
        is_away = false;
        if is_first && arguments.since.is_none() {
            entries.drain(..entries.len().saturating_sub(arguments.lines));
        }
        for entry in entries.into_iter().take(left) {
            entry.say(arguments.remote.json);
            left -= 1;
        }
        if left == 0 {
            return Ok(());
        }
    }
}

/// What was not shown yet, the oldest first.
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
        // The first look goes back as far as it is asked to, later ones as far as the one before.
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

    fn say(&self, is_json: bool) {
        match self {
            Self::Event(event) if is_json => output::say_json_line(event),
            Self::Held(held) if is_json => {
                let mut value = json!(held);
                value["held"] = json!(true);
                output::say_json_line(&value);
            }
            Self::Event(event) => output::say(&format!(
                "{}  {:<24}  {}  {}",
                terminal::styled(terminal::FAINT, visible(text(event, "received_at"))),
                visible(text(event, "event_type")),
                visible(text(event, "event_id")),
                terminal::styled(terminal::FAINT, format!("{} seq {}", visible(text(event, "agent_id")), event["seq"])),
            )),
            Self::Held(held) => output::say(&format!(
                "{}  {:<24}  {}  {}",
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

/// What was shown, as far back as anybody could be shown it again.
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
