//! `attache audit watch`: requests the newest checkpoint periodically and checks that it is consistent with the one before.
//!
//! It prints one line for each change of state, and none while the log only grows. If the server does not answer, the request is repeated;
//! if the log was rolled back, forked or replaced, the command exits with 3.

use std::time::Duration;

use clap::Args;
use client::{Observation, Violation};
use domain::checkpoint::VerifierKey;
use domain::clock::date_time;
use domain::foreign::visible;
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};

use crate::connection::{ProfileConnection, Remote, failed};
use crate::failure::{Done, Failure, FailureKind};
use crate::output;
use crate::witness::{NotObserved, observe};

/// Options of `attache audit watch`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Seconds between two requests
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// Check once and exit
    #[arg(long)]
    once: bool,
    /// Trusted log key [default: the keys in the profile, which pins one on first use]
    #[arg(long)]
    vkey: Option<String>,
    /// Pin this key in the profile, replacing the pinned one of the same part, or all keys of another log
    #[arg(long, requires = "vkey")]
    pin: bool,
    #[command(flatten)]
    remote: Remote,
}

/// Result of the last request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Unknown,
    Watching,
    Unreachable,
}

/// Monitors the log until a violation or Ctrl-C.
pub async fn run(arguments: &Arguments) -> Done {
    tokio::select! {
        watched = watch(arguments) => watched,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

async fn watch(arguments: &Arguments) -> Done {
    let mut connection = arguments.remote.open()?;
    let mut watched: Vec<_> =
        keys(arguments, &mut connection).await?.into_iter().map(|key| (key, State::Unknown)).collect();
    let mut ticks = interval(Duration::from_secs(arguments.every));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // Each part is observed, and a violation is reported before another failure.
        let mut failed = None;
        for (key, state) in &mut watched {
            match look(arguments, &connection, key, *state).await {
                Ok(next) => *state = next,
                Err(failure) if failure.kind() == FailureKind::LogViolated => return Err(failure),
                Err(failure) => failed = failed.or(Some(failure)),
            }
        }
        if let Some(failure) = failed {
            return Err(failure);
        }
        if arguments.once {
            return Ok(());
        }
    }
}

/// Observes the part of the log with this key, and prints a change of its state.
async fn look(
    arguments: &Arguments,
    connection: &ProfileConnection,
    key: &VerifierKey,
    before: State,
) -> Result<State, Failure> {
    match observe(&connection.folder, &connection.client, key).await {
        Ok(observed) => {
            if before != State::Watching {
                print(connection, &continues(key, &observed, before));
            }
            Ok(State::Watching)
        }
        Err(NotObserved::Asking(error)) if !arguments.once => {
            if before != State::Unreachable {
                let detail = visible(&domain::reasons(&error));
                print(connection, &json!({ "state": "unreachable", "origin": key.name(), "detail": detail }));
            }
            Ok(State::Unreachable)
        }
        Err(NotObserved::Violation(violation)) => {
            if connection.json {
                print(connection, &broken(key, &violation));
            }
            Err(NotObserved::Violation(violation).into())
        }
        Err(why) => Err(why.into()),
    }
}

/// The trusted keys: the given one, the pinned ones, or on first use the published one, which is then pinned.
async fn keys(arguments: &Arguments, connection: &mut ProfileConnection) -> Result<Vec<VerifierKey>, Failure> {
    let keys = match (&arguments.vkey, &connection.profile.log_key) {
        (Some(given), _) => vec![given.clone()],
        (None, Some(pinned)) => {
            connection.check_server()?;
            [pinned].into_iter().chain(&connection.profile.further_log_keys).cloned().collect()
        }
        (None, None) => {
            let published = connection.client.log_keys().await.map_err(failed)?;
            let active = published.keys.into_iter().find(|key| key.retired_at.is_none());
            vec![active.ok_or_else(|| Failure::refused("the server publishes no log key"))?.vkey]
        }
    };
    let read = |key: &String| key.parse().map_err(|error| Failure::refused(format!("{}: {error}", visible(key))));
    let verifiers = keys.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    if arguments.pin || (arguments.vkey.is_none() && connection.profile.log_key.is_none()) {
        connection.change(|profile| keys.into_iter().for_each(|key| profile.pin(key)))?;
    }
    Ok(verifiers)
}

fn continues(key: &VerifierKey, observed: &Observation, before: State) -> Value {
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

/// Prints a change of state with its time.
fn print(connection: &ProfileConnection, change: &Value) {
    let at = date_time(connection.clock().now());
    if connection.json {
        let mut change = change.clone();
        change["at"] = json!(at);
        output::print(&change.to_string());
        return;
    }
    let text = |member: &str| change[member].as_str().unwrap_or("-").to_owned();
    let origin = text("origin");
    if change["state"] == "unreachable" {
        output::print(&format!("{at}  {origin}: {}; retrying", text("detail")));
        return;
    }
    let seen = change["seen_size"].as_u64();
    let seen = seen.map(|seen| format!("consistent with the {seen} events seen before"));
    let seen = seen.unwrap_or_else(|| "seen for the first time".to_owned());
    let earlier = &change["earlier_epoch"];
    let epoch = earlier["origin"]
        .as_str()
        .map(|origin| format!("\n  a new epoch of the log: {} events of {origin} were seen before", earlier["size"]));
    output::print(&format!(
        "{at}  {origin}: {} events, root {}; {seen}{}",
        change["size"],
        text("root"),
        epoch.unwrap_or_default()
    ));
}
