//! `attache audit watch`: asks for the newest checkpoint again and again, and demands each time that it continues the one before.
//!
//! One line for each change of state, and none while the log only grows. A server that does not answer is asked again; a log that breaks
//! its word ends the command with 3.

use std::time::Duration;

use clap::Args;
use client::{Observed, Violation};
use domain::checkpoint::VerifierKey;
use domain::clock::date_time;
use domain::foreign::visible;
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};

use crate::cli::remote::{Connection, Remote, failed};
use crate::cli::witness::{NotObserved, observe};
use crate::cli::{Done, Failure, output};

/// What to watch.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  attache audit watch --every 30\n  attache audit watch --once --json || echo \"exit code $?\"\n\nThe largest checkpoint that was seen is in the profile's folder (log.json), so each start continues where the last one ended. \
                  `attache verify EVENT_ID` compares and remembers too.\n\nExit codes: 0 ended by Ctrl-C or, with --once, the log continues what was seen; 1 the server did not answer (--once); 3 the log was \
                  rolled back, forked or replaced."
)]
pub struct Arguments {
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// Look once and end
    #[arg(long)]
    once: bool,
    /// The log's key that you trust [default: the one in the profile, where the first that is seen is kept]
    #[arg(long)]
    vkey: Option<String>,
    /// Keep this key in the profile, in place of the one that is there
    #[arg(long, requires = "vkey")]
    pin: bool,
    #[command(flatten)]
    remote: Remote,
}

/// How the last look ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Unknown,
    Watching,
    Unreachable,
}

/// Does it.
pub async fn run(arguments: &Arguments) -> Done {
    tokio::select! {
        watched = watch(arguments) => watched,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

async fn watch(arguments: &Arguments) -> Done {
    let mut connection = arguments.remote.open()?;
    let key = key(arguments, &mut connection).await?;
    let mut state = State::Unknown;
    let mut looks = interval(Duration::from_secs(arguments.every));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        match observe(&connection.folder, &connection.client, &key).await {
            Ok(observed) => {
                if state != State::Watching {
                    say(&connection, &continues(&key, &observed, state));
                }
                state = State::Watching;
            }
            Err(NotObserved::Asking(error)) if !arguments.once => {
                if state != State::Unreachable {
                    let detail = visible(&domain::reasons(&error));
                    say(&connection, &json!({ "state": "unreachable", "origin": key.name(), "detail": detail }));
                }
                state = State::Unreachable;
            }
            Err(NotObserved::Violation(violation)) => {
                if connection.json {
                    say(&connection, &broken(&key, &violation));
                }
                return Err(NotObserved::Violation(violation).into());
            }
            Err(why) => return Err(why.into()),
        }
        if arguments.once {
            return Ok(());
        }
    }
}

/// The key that is trusted: the given one, the one in the profile, or the first that the server shows, which is kept.
async fn key(arguments: &Arguments, connection: &mut Connection) -> Result<VerifierKey, Failure> {
    let key = match (&arguments.vkey, &connection.profile.log_key) {
        (Some(given), _) => given.clone(),
        (None, Some(pinned)) => {
            connection.is_the_profiles()?;
            pinned.clone()
        }
        (None, None) => {
            let published = connection.client.log_keys().await.map_err(failed)?;
            let active = published.keys.into_iter().find(|key| key.retired_at.is_none());
            active.ok_or_else(|| Failure::refused("the server publishes no key of a log"))?.vkey
        }
    };
    let known = key.parse().map_err(|error| Failure::refused(format!("{}: {error}", visible(&key))))?;
    if arguments.pin || (arguments.vkey.is_none() && connection.profile.log_key.is_none()) {
        connection.change(|profile| profile.log_key = Some(key))?;
    }
    Ok(known)
}

fn continues(key: &VerifierKey, observed: &Observed, before: State) -> Value {
    let mut said = json!({
        "state": if before == State::Unreachable { "reachable" } else { "watching" },
        "origin": key.name(),
        "size": observed.checkpoint.size,
        "root": observed.checkpoint.root,
        "seen_size": observed.seen.as_ref().map(|seen| seen.size),
    });
    if let Some(earlier) = &observed.earlier_epoch {
        said["earlier_epoch"] = json!({ "origin": earlier.origin, "size": earlier.size });
    }
    said
}

fn broken(key: &VerifierKey, violation: &Violation) -> Value {
    json!({
        "state": violation.code(),
        "origin": key.name(),
        "seen_size": violation.seen().map(|seen| seen.size),
        "detail": visible(&violation.to_string()),
    })
}

/// One line with the moment.
fn say(connection: &Connection, change: &Value) {
    let at = date_time(connection.clock().now());
    if connection.json {
        let mut change = change.clone();
        change["at"] = json!(at);
        output::say(&change.to_string());
        return;
    }
    let text = |member: &str| change[member].as_str().unwrap_or("-").to_owned();
    let origin = text("origin");
    if change["state"] == "unreachable" {
        output::say(&format!("{at}  {origin}: {}; asking again", text("detail")));
        return;
    }
    let seen = change["seen_size"].as_u64();
    let seen = seen.map(|seen| format!("it continues the {seen} that were seen before"));
    let seen = seen.unwrap_or_else(|| "seen for the first time".to_owned());
    let earlier = &change["earlier_epoch"];
    let epoch = earlier["origin"]
        .as_str()
        .map(|origin| format!("\n  a new epoch of the log: {} events of {origin} were seen before", earlier["size"]));
    output::say(&format!(
        "{at}  {origin}: {} events, root {}; {seen}{}",
        change["size"],
        text("root"),
        epoch.unwrap_or_default()
    ));
}
