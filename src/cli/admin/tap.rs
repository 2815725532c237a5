//! `attache admin tap`: samples of the events that senders submit, without their content.

use std::time::Duration;

use actors::intake::tap::OUTCOMES;
use app::config::Settings;
use clap::Args;
use domain::act::ActReason;
use domain::ids::{MachineUuid, UserAccountId};
use serde_json::json;

use super::options::OutputFormat;
use crate::cli::operator_client::OperatorClient;
use crate::cli::tap::{TapSamples, line};
use commands::ending::Endings;
use commands::failure::Done;
use commands::moment::duration;
use commands::output;

/// Which events, and for how long.
#[derive(Debug, Args)]
pub struct TapOptions {
    /// Time after which it ends, 60s at most
    #[arg(long = "for", value_name = "TIME", default_value = "30s", value_parser = duration)]
    lasts: Duration,
    /// Show every n-th matching event
    #[arg(long, value_name = "N", default_value_t = 1)]
    one_in: u64,
    /// Show only events with this outcome
    #[arg(long, value_parser = OUTCOMES)]
    outcome: Option<String>,
    /// Show only events that are charged to this account
    #[arg(long)]
    account: Option<UserAccountId>,
    /// Show only events of this computer
    #[arg(long)]
    machine: Option<MachineUuid>,
    /// Reason, which the record of this act names
    #[arg(long, value_name = "TEXT")]
    reason: ActReason,
    #[command(flatten)]
    format: OutputFormat,
}

/// Prints samples through the operator's socket until the tap or a signal ends.
pub async fn run(options: &TapOptions, settings: &Settings) -> Done {
    let TapOptions { lasts, one_in, outcome, account, machine, reason, format } = options;
    let mut parameters = vec![("one_in", one_in.to_string()), ("reason", reason.as_str().to_owned())];
    parameters.extend(outcome.clone().map(|outcome| ("outcome", outcome)));
    parameters.extend(account.as_ref().map(|account| ("account", account.to_string())));
    parameters.extend(machine.map(|machine| ("machine", machine.to_string())));
    let mut endings = Endings::watch()?;
    let mut samples = TapSamples::open(&OperatorClient::of(settings)?, *lasts, parameters).await?;
    loop {
        let sample = tokio::select! {
            _ = endings.next() => return Ok(()),
            sample = samples.next() => sample?,
        };
        match sample {
            Some(sample) if format.json => output::print_json_line(&json!(sample)),
            Some(sample) => output::print(&line(&sample)),
            None => return Ok(()),
        }
    }
}
