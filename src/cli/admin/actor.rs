//! `attache admin actor`: crashed actors of keys, and their quarantine.

use std::time::Duration;

use app::config::Settings;
use clap::{Args, Subcommand};
use domain::act::ActReason;
use domain::actor_key::KeyedKind;
use domain::foreign::visible;
use humantime_serde::re::humantime::format_duration;
use serde_json::{Value, json};
use uuid::Uuid;
use wire::ops::{KeyFact, KeyList, KeyShown, ObjectChanged, QuarantineRequest, ReasonRequest, ServicePauseEntry};

use super::options::OutputFormat;
use crate::cli::operator_client::OperatorClient;
use commands::failure::Done;
use commands::moment::duration;
use commands::output;

/// Subcommands of `attache admin actor`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List keys with recently crashed or quarantined actors, on all nodes
    Crashed(CrashedOptions),
    /// Show a key: its crashes, and the state of its actor on this server, and its row
    Show {
        /// claims, devices or batches
        kind: KeyedKind,
        /// Id of the registration, computer or batch
        key: Uuid,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Refuse a key for a time; its actor ends
    Quarantine(QuarantineOptions),
    /// End the quarantine of a key
    Release(KeyOptions),
    /// Let the actor of a key end, so that the next message starts another from its row
    Restart(KeyOptions),
}

/// Options of `crashed`.
#[derive(Debug, Args)]
pub struct CrashedOptions {
    /// Only keys with an actor that crashed in this request: its X-Request-Id
    #[arg(long, value_name = "ID")]
    request: Option<Uuid>,
    #[command(flatten)]
    format: OutputFormat,
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
    let client = OperatorClient::of(settings)?;
    match command {
        Command::Show { kind, key, format } => {
            let shown: KeyShown = client.get(&format!("/ops/v1/keys/{}/{key}", kind.as_str())).await?;
            output::show(format.json, &json!(shown), || words(&shown));
        }
        Command::Crashed(CrashedOptions { request, format }) => {
            let filter = request.map(|request| format!("?request={request}")).unwrap_or_default();
            let KeyList { keys } = client.get(&format!("/ops/v1/keys{filter}")).await?;
            let rows: Vec<Value> = keys.iter().map(|key| json!(key)).collect();
            let columns =
                ["key", "kind", "node", "crashes", "last_crash_at", "quarantined_until", "quarantined_by", "error"];
            output::list(format.json, &rows, &columns);
        }
        Command::Quarantine(QuarantineOptions { key, lasts, replace }) => {
            let lasts = Some(format_duration(*lasts).to_string());
            let request = QuarantineRequest { reason: Some(key.because()), lasts, replace: *replace };
            let pause: ServicePauseEntry = client.post(&key.route("quarantine"), &request).await?;
            output::show(key.format.json, &json!(pause), || {
                format!("{} is refused until {}; all nodes follow within a second or two", pause.scope, pause.until)
            });
        }
        Command::Release(key) => {
            order(&client, key, "release", "is released: its next message starts an actor").await?;
        }
        Command::Restart(key) => order(&client, key, "restart", "is restarted by its next message").await?,
    }
    Ok(())
}

/// A key in lines.
fn words(KeyShown { kind, key, entries, actor, facts }: &KeyShown) -> String {
    let mut lines = vec![format!("{kind}:{key}")];
    for entry in entries {
        let place = entry.node.as_deref().unwrap_or("all nodes");
        let until =
            entry.quarantined_until.as_ref().map(|until| format!(", refused until {until}")).unwrap_or_default();
        let error = entry.error.as_ref().map(|error| format!(": {}", visible(error))).unwrap_or_default();
        let request = entry.request_id.as_ref().map(|id| format!(" (request {id})")).unwrap_or_default();
        lines.push(format!("  on {place}: {} crashes{until}{error}{request}", entry.crashes));
    }
    lines.push(match actor {
        None => "  no actor runs on this server".to_owned(),
        Some(actor) => {
            let state = if actor.busy { "is busy" } else { "is idle" };
            format!("  its actor on {} {state}, {} messages, {} ms ago", actor.node, actor.queued, actor.unmoved_ms)
        }
    });
    for KeyFact { name, actor, row, differs } in facts {
        let value = |text: &Option<String>| text.as_deref().map_or_else(|| "–".to_owned(), visible);
        let mark = if *differs { "  ← differs" } else { "" };
        lines.push(format!("  {name:24} actor {:28} row {}{mark}", value(actor), value(row)));
    }
    lines.join("\n")
}

async fn order(client: &OperatorClient, key: &KeyOptions, act: &str, effect: &str) -> Done {
    let ordered: ObjectChanged = client.post(&key.route(act), &ReasonRequest { reason: Some(key.because()) }).await?;
    output::show(key.format.json, &json!(ordered), || format!("{} {effect}", ordered.target));
    Ok(())
}
