//! `attache admin node`: lists the servers on this database.

use app::config::Settings;
use app::host_name;
use clap::{Args, Subcommand};
use domain::act::ActReason;
use domain::clock::date_time;
use domain::node::{NodeRecord, short};
use serde_json::{Value, json};
use wire::ops::{DrainRequest, NodeDrained};

use super::context::AdminContext;
use super::options::OutputFormat;
use crate::cli::failure::{Done, Failure};
use crate::cli::operator_socket::OperatorSocket;
use crate::cli::output;

/// Subcommands of `attache admin node`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List nodes with their state, leases and clocks
    List(OutputFormat),
    /// Take the server of this computer out of service without ending it
    ///
    /// It is unready, and its responses close their connections, so that balancers and clients select another node. It ends with `undrain`, or with
    /// a restart.
    Drain(DrainOptions),
    /// Put the server of this computer back into service
    Undrain(DrainOptions),
}

/// Options of `drain` and `undrain`.
#[derive(Debug, Args)]
pub struct DrainOptions {
    /// Reason, which the record of this act names
    #[arg(long, value_name = "TEXT")]
    reason: ActReason,
    #[command(flatten)]
    format: OutputFormat,
}

/// Drains the server behind the operator's socket, or puts it back into service.
pub async fn change(settings: &Settings, drains: bool, DrainOptions { reason, format }: &DrainOptions) -> Done {
    let (socket, route) = (OperatorSocket::of(settings)?, format!("/ops/v1/nodes/{}/drain", host_name()));
    let answer: NodeDrained = if drains {
        socket.post(&route, &DrainRequest { reason: Some(reason.as_str().to_owned()) }).await?
    } else {
        socket.delete(&route, reason).await?
    };
    output::show(format.json, &json!(answer), || {
        let state =
            if answer.draining { "out of service: `attache admin node undrain` ends it" } else { "in service again" };
        format!("{} is {state}", answer.node)
    });
    Ok(())
}

/// Runs the subcommand.
pub async fn run(format: OutputFormat, context: &AdminContext<'_>) -> Done {
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
