//! `attache admin actor`: keys with crashed actors, and the end of their quarantine.

use app::config::Settings;
use app::host_name;
use clap::{Args, Subcommand};
use domain::act::ActReason;
use serde_json::{Value, json};
use wire::ops::{CrashedKeyList, KeyReleased, ReasonRequest};

use super::options::OutputFormat;
use crate::cli::failure::Done;
use crate::cli::operator_socket::OperatorSocket;
use crate::cli::output;

/// Subcommands of `attache admin actor`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List keys with recently crashed actors of the server of this computer
    Crashed(OutputFormat),
    /// End the quarantine of a key
    Release(ReleaseOptions),
}

/// Options of `release`.
#[derive(Debug, Args)]
pub struct ReleaseOptions {
    /// claims, devices or batches
    kind: String,
    /// Id of the registration, computer or batch
    key: String,
    /// Name of the host, or id, of another node
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Reason, which the record of this act names
    #[arg(long, value_name = "TEXT")]
    reason: ActReason,
    #[command(flatten)]
    format: OutputFormat,
}

/// Runs the subcommand through the operator's socket.
pub async fn run(command: &Command, settings: &Settings) -> Done {
    let socket = OperatorSocket::of(settings)?;
    match command {
        Command::Crashed(format) => {
            let CrashedKeyList { keys, .. } = socket.get("/ops/v1/keys").await?;
            let rows: Vec<Value> = keys.iter().map(|key| json!(key)).collect();
            output::list(
                format.json,
                &rows,
                &["kind", "key", "crashes", "last_crash_at", "quarantined_until", "error"],
            );
        }
        Command::Release(ReleaseOptions { kind, key, node, reason, format }) => {
            let node = node.clone().unwrap_or_else(host_name);
            let route = format!("/ops/v1/nodes/{node}/keys/{kind}/{key}/release");
            let request = ReasonRequest { reason: Some(reason.as_str().to_owned()) };
            let released: KeyReleased = socket.post(&route, &request).await?;
            output::show(format.json, &json!(released), || {
                format!("{kind} {key} is released on {}: its next message starts an actor", released.node)
            });
        }
    }
    Ok(())
}
