//! `attache admin log`: declares a new epoch of the event log.

use app::installation::{Declared, declare};
use clap::Subcommand;
use domain::act::{ActKind, ActReason};
use serde_json::json;

use super::context::AdminContext;
use super::options::OutputFormat;
use crate::cli::acts::by_shell;
use commands::failure::{Done, Failure};
use commands::output;

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
        reason: ActReason,
        #[command(flatten)]
        format: OutputFormat,
    },
}

/// Runs the subcommand.
pub async fn run(command: Command, context: &AdminContext<'_>) -> Done {
    let Command::Epoch { reason, format } = command;
    if context.settings.upstream.url.is_some() {
        return Err(Failure::refused("there is no embedded log: upstream.url names an external statistics service"));
    }
    let AdminContext { settings, clock, rng, .. } = context;
    let acting = context.acting(by_shell(ActKind::LogEpoch).because(Some(reason.clone())));
    let declared = declare(settings, (clock, rng), &acting.store, reason.as_str()).await;
    let Declared { origin, vkey, size } = acting.settle(declared).await.map_err(Failure::caused)?;
    let answer = json!({ "origin": origin, "vkey": vkey, "size": size });
    output::show(format.json, &answer, || {
        format!("the log begins the epoch {origin} at {size} signed events; its clients need the key {vkey}")
    });
    Ok(())
}
