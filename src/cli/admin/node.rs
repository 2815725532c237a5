//! `attache admin node`: lists the servers on this database.

use clap::Subcommand;
use domain::clock::date_time;
use domain::node::{NodeRecord, short};
use serde_json::{Value, json};

use super::context::AdminContext;
use super::options::OutputFormat;
use crate::cli::failure::{Done, Failure};
use crate::cli::output;

/// Subcommands of `attache admin node`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List nodes with their state, leases and clocks
    List(OutputFormat),
}

/// Runs the subcommand.
pub async fn run(command: Command, context: &AdminContext<'_>) -> Done {
    let Command::List(format) = command;
    let nodes = context.store.nodes(context.clock.now()).await.map_err(Failure::caused)?;
    let rows: Vec<Value> = nodes.iter().map(described).collect();
    let columns =
        ["name", "operator_address", "status", "version", "configuration", "clock_ahead_ms", "sequencer", "batches"];
    output::list(format.json, &rows, &columns);
    Ok(())
}

fn described(node: &NodeRecord) -> Value {
    let traits = &node.traits;
    json!({
        "id": traits.id,
        "name": traits.name,
        "address": traits.address,
        "operator_address": traits.operator_address,
        "status": status(node),
        "unready": node.unready,
        "version": traits.version,
        "configuration": short(&traits.configuration),
        "started_at": date_time(traits.started_at),
        "last_beat_at": date_time(node.last_beat_at),
        "clock_ahead_ms": traits.clock_ahead.num_milliseconds(),
        "sequencer": node.has_sequencer,
        "batches": node.batches,
    })
}

/// `ready`, `unready`, `draining` or `silent`.
pub(in crate::cli) fn status(node: &NodeRecord) -> &'static str {
    if node.is_silent() {
        "silent"
    } else if node.is_draining {
        "draining"
    } else if node.unready.is_some() {
        "unready"
    } else {
        "ready"
    }
}
