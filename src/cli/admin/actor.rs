//! `attache admin actor`: crashed actors of keys, and their quarantine.

use std::time::Duration;

use app::config::Settings;
use clap::{Args, Subcommand};
use domain::act::ActReason;
use domain::actor_key::KeyedKind;
use humantime_serde::re::humantime::format_duration;
use serde_json::{Value, json};
use uuid::Uuid;
use wire::ops::{KeyList, KeyOrdered, QuarantineRequest, ReasonRequest, ServicePauseEntry};

use super::options::OutputFormat;
use crate::cli::failure::Done;
use crate::cli::moment::duration;
use crate::cli::operator_socket::OperatorSocket;
use crate::cli::output;

/// Subcommands of `attache admin actor`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List keys with recently crashed or quarantined actors, on all nodes
    Crashed(OutputFormat),
    /// Refuse a key for a time; its actor ends
    Quarantine(QuarantineOptions),
    /// End the quarantine of a key
    Release(KeyOptions),
    /// Let the actor of a key end, so that the next message starts another from its row
    Restart(KeyOptions),
}

/// A key and a reason.
#[derive(Debug, Args)]
pub struct KeyOptions {
    /// claims, devices or batches
    kind: KeyedKind,
    /// Id of the registration, computer or batch
    key: Uuid,
    /// Reason, which the record of this act names
    #[arg(long, value_name = "TEXT")]
    reason: ActReason,
    #[command(flatten)]
    format: OutputFormat,
}

/// Options of `quarantine`.
#[derive(Debug, Args)]
pub struct QuarantineOptions {
    #[command(flatten)]
    key: KeyOptions,
    /// Time after which it ends by itself, such as 30m
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = duration)]
    lasts: Duration,
    /// Replace the quarantine of another operator
    #[arg(long)]
    replace: bool,
}

impl KeyOptions {
    fn route(&self, act: &str) -> String {
        format!("/ops/v1/keys/{}/{}/{act}", self.kind.as_str(), self.key)
    }

    fn because(&self) -> String {
        self.reason.as_str().to_owned()
    }
}

/// Runs the subcommand through the operator's socket.
pub async fn run(command: &Command, settings: &Settings) -> Done {
    let socket = OperatorSocket::of(settings)?;
    match command {
        Command::Crashed(format) => {
            let KeyList { keys } = socket.get("/ops/v1/keys").await?;
            let rows: Vec<Value> = keys.iter().map(|key| json!(key)).collect();
            let columns =
                ["key", "kind", "node", "crashes", "last_crash_at", "quarantined_until", "quarantined_by", "error"];
            output::list(format.json, &rows, &columns);
        }
        Command::Quarantine(QuarantineOptions { key, lasts, replace }) => {
            let lasts = Some(format_duration(*lasts).to_string());
            let request = QuarantineRequest { reason: Some(key.because()), lasts, replace: *replace };
            let pause: ServicePauseEntry = socket.post(&key.route("quarantine"), &request).await?;
            output::show(key.format.json, &json!(pause), || {
                format!("{} is refused until {}; all nodes follow within a second or two", pause.scope, pause.until)
            });
        }
        Command::Release(key) => {
            order(&socket, key, "release", "is released: its next message starts an actor").await?;
        }
        Command::Restart(key) => order(&socket, key, "restart", "is restarted by its next message").await?,
    }
    Ok(())
}

async fn order(socket: &OperatorSocket, key: &KeyOptions, act: &str, effect: &str) -> Done {
    let ordered: KeyOrdered = socket.post(&key.route(act), &ReasonRequest { reason: Some(key.because()) }).await?;
    output::show(key.format.json, &json!(ordered), || format!("{} {effect}", ordered.key));
    Ok(())
}
