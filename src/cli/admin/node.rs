//! `attache admin node`: lists the servers on this database and their actors, drains a server, and restarts one actor.

use app::config::Settings;
use app::{host_name, nodes};
use clap::{Args, Subcommand};
use domain::act::ActReason;
use serde_json::{Value, json};
use wire::ops::{ActorReplaced, NodeDrained, NodeTree, ReasonRequest};

use super::context::AdminContext;
use super::options::OutputFormat;
use crate::cli::operator_client::OperatorClient;
use commands::failure::{Done, Failure};
use commands::output;

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
    /// List the actors of a server
    Actors(ActorsOptions),
    /// Let an actor of a server finish its messages and end, so that another is started
    ///
    /// A keyed actor is restarted with `attache admin actor restart`. The restart budget stays as it is.
    RestartActor(RestartOptions),
}

/// Options of `actors`.
#[derive(Debug, Args)]
pub struct ActorsOptions {
    /// Name of its host, or its id [default: the server of this computer]
    node: Option<String>,
    #[command(flatten)]
    format: OutputFormat,
}

/// Options of `restart-actor`.
#[derive(Debug, Args)]
pub struct RestartOptions {
    /// Name of the actor in the list of actors
    actor: String,
    /// Name of its host, or its id [default: the server of this computer]
    #[arg(long)]
    node: Option<String>,
    /// Kill it at once, which loses its messages; for an actor that does not end
    #[arg(long)]
    kill: bool,
    /// Reason, which the record of this act names
    #[arg(long, value_name = "TEXT")]
    reason: ActReason,
    #[command(flatten)]
    format: OutputFormat,
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
    let (client, route) = (OperatorClient::of(settings)?, format!("/ops/v1/nodes/{node}/drain"));
    let answer: NodeDrained = if drains {
        client.post(&route, &ReasonRequest { reason: Some(reason.as_str().to_owned()) }).await?
    } else {
        client.delete(&route, reason).await?
    };
    output::show(format.json, &json!(answer), || {
        let state =
            if answer.draining { "out of service: `attache admin node undrain` ends it" } else { "in service again" };
        format!("{} is {state}", answer.node)
    });
    Ok(())
}

/// Lists the actors of a server through the operator's socket.
pub async fn actors(settings: &Settings, ActorsOptions { node, format }: &ActorsOptions) -> Done {
    let node = node.clone().unwrap_or_else(host_name);
    let answer: NodeTree = OperatorClient::of(settings)?.get(&format!("/ops/v1/nodes/{node}/tree")).await?;
    if format.json {
        output::print_json(&json!(answer));
        return Ok(());
    }
    let rows = answer.tree["children"].as_array().cloned().unwrap_or_default();
    output::list(false, &rows, &["name", "status", "live", "queued", "restarts", "quarantined"]);
    if answer.age_ms > 0 {
        output::print(&format!("as {} wrote it {} ms ago", answer.node, answer.age_ms));
    }
    Ok(())
}

/// Ends an actor of a server through the operator's socket.
pub async fn restart_actor(settings: &Settings, options: &RestartOptions) -> Done {
    let RestartOptions { actor, node, kill, reason, format } = options;
    let (node, act) = (node.clone().unwrap_or_else(host_name), if *kill { "kill" } else { "restart" });
    let request = ReasonRequest { reason: Some(reason.as_str().to_owned()) };
    let route = format!("/ops/v1/nodes/{node}/actors/{actor}/{act}");
    let answer: ActorReplaced = OperatorClient::of(settings)?.post(&route, &request).await?;
    output::show(format.json, &json!(answer), || {
        let how = if *kill { "is killed" } else { "ends after its messages" };
        format!("{} on {} {how}, and another is started", answer.actor, answer.node)
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
