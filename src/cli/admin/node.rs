//! `attache admin node`: lists the servers on this database.

use app::config::Settings;
use app::{host_name, nodes};
use clap::{Args, Subcommand};
use domain::act::ActReason;
use serde_json::{Value, json};
use wire::ops::{NodeDrained, ReasonRequest};

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
    /// Take a server out of service without ending it
    ///
    /// It is unready, and its responses close their connections, so that balancers and clients select another node. It ends with `undrain`, or with
    /// a restart.
    Drain(DrainOptions),
    /// Put a server back into service
    Undrain(DrainOptions),
}

/// Options of `drain` and `undrain`.
#[derive(Debug, Args)]
pub struct DrainOptions {
    /// Name of its host, or its id [default: the server of this computer]
    node: Option<String>,
    /// Reason, which the record of this act names
    #[arg(long, value_name = "TEXT")]
    reason: ActReason,
    #[command(flatten)]
    format: OutputFormat,
}

/// Drains a server through the operator's socket, or puts it back into service.
pub async fn change(settings: &Settings, drains: bool, DrainOptions { node, reason, format }: &DrainOptions) -> Done {
    let node = node.clone().unwrap_or_else(host_name);
    let (socket, route) = (OperatorSocket::of(settings)?, format!("/ops/v1/nodes/{node}/drain"));
    let answer: NodeDrained = if drains {
        socket.post(&route, &ReasonRequest { reason: Some(reason.as_str().to_owned()) }).await?
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
    let nodes = nodes::list(&context.store, context.clock.now()).await.map_err(Failure::caused)?;
    let rows: Vec<Value> = nodes.iter().map(|node| json!(node)).collect();
    let columns =
        ["name", "operator_address", "status", "version", "configuration", "clock_ahead_ms", "sequencer", "batches"];
    output::list(format.json, &rows, &columns);
    Ok(())
}
