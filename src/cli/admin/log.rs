//! `attache admin log`: declares a new epoch of the event log.

use app::installation::{Declared, declare};
use clap::Subcommand;
use serde_json::json;

use super::context::AdminContext;
use super::options::OutputFormat;
use crate::cli::failure::{Done, Failure};
use crate::cli::output;

/// Subcommands of `attache admin log`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Begin a new epoch of the event log, with a new key and origin
    ///
    /// Use it after a restore or a failover that lost signed events, or after a witness refused the log. Nodes may run; they sign with the new key
    /// within a second. Events and proofs are kept.
    Epoch {
        /// Reason, which the first event of the epoch records
        #[arg(long)]
        reason: String,
        #[command(flatten)]
        format: OutputFormat,
    },
}

/// Runs the subcommand.
pub async fn run(command: Command, context: &AdminContext<'_>) -> Done {
    let Command::Epoch { reason, format } = command;
    let reason = reason.trim();
    if reason.is_empty() {
        return Err(Failure::refused("--reason must not be empty"));
    }
    if context.settings.upstream.url.is_some() {
        return Err(Failure::refused("there is no embedded log: upstream.url names an external statistics service"));
    }
    let AdminContext { settings, store, clock, rng } = context;
    let declared = declare(settings, (clock, rng), store, reason).await.map_err(Failure::caused)?;
    let Declared { origin, vkey, size } = declared;
    let answer = json!({ "origin": origin, "vkey": vkey, "size": size });
    output::show(format.json, &answer, || {
        format!("the log begins the epoch {origin} at {size} signed events; its clients need the key {vkey}")
    });
    Ok(())
}
