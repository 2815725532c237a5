//! `attache admin memory`: moves the memory into a separate database.

use app::installation::memory_settings;
use clap::Subcommand;
use domain::act::ActKind;
use serde_json::{Map, Value, json};

use super::context::AdminContext;
use super::options::OutputFormat;
use crate::cli::acts::{Because, by_shell};
use commands::failure::{Done, Failure};
use commands::output;

/// Subcommands of `attache admin memory`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Move all pages and notes from the main database into the one of knowledge.database.url
    ///
    /// All nodes must be stopped. The target must be an empty database. Vectors of the extension pgvector are computed again by the next start.
    Move {
        #[command(flatten)]
        because: Because,
        #[command(flatten)]
        format: OutputFormat,
    },
}

/// Runs the subcommand.
pub async fn run(command: Command, context: &AdminContext<'_>) -> Done {
    let Command::Move { because, format } = command;
    let Some(settings) = memory_settings(context.settings) else {
        return Err(Failure::refused("knowledge.database.url is not set: it names the database to move the memory to"));
    };
    let nodes = context.store.nodes(context.clock.now()).await.map_err(Failure::caused)?;
    if let Some(node) = nodes.into_iter().find(|node| !node.is_silent()) {
        return Err(Failure::refused(format!("node {} runs: stop all nodes first", node.place())));
    }
    let acting = context.acting(by_shell(ActKind::MemoryMove).because(because.reason));
    let moved = acting.store.memory_relocate(&settings, context.clock.now()).await;
    let moved = acting.settle(moved).await.map_err(Failure::caused)?;
    let rows: Map<String, Value> = moved.iter().map(|(table, rows)| ((*table).to_owned(), json!(rows))).collect();
    output::show(format.json, &json!({ "rows": rows }), || {
        let table = output::table(
            &["table", "rows"],
            moved.iter().map(|(table, rows)| vec![(*table).to_owned(), rows.to_string()]),
        );
        format!("{table}\nthe memory was moved: start the nodes")
    });
    Ok(())
}
