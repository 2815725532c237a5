//! `attache admin batch`: lists and cancels running batches.

use app::queues;
use clap::Subcommand;
use domain::act::ActKind;
use domain::ids::BatchId;
use serde_json::{Value, json};

use super::context::AdminContext;
use super::options::{Listing, OutputFormat};
use crate::cli::acts::{Because, by_shell};
use crate::cli::failure::{Done, Failure};
use crate::cli::output;

/// Subcommands of `attache admin batch`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List running batches and imports, oldest first
    List(Listing),
    /// Cancel a running batch: its items without an outcome are not added
    Cancel {
        /// Id from the list
        id: BatchId,
        #[command(flatten)]
        because: Because,
        #[command(flatten)]
        format: OutputFormat,
    },
}

/// Runs the subcommand.
pub async fn run(command: Command, context: &AdminContext<'_>) -> Done {
    match command {
        Command::List(listing) => {
            let found = context.store.batches_running(None, listing.limit).await.map_err(Failure::caused)?;
            let rows: Vec<Value> = found.into_iter().map(|batch| json!(queues::batch(batch))).collect();
            let columns = ["id", "kind", "user_account_id", "total", "processed", "created_at", "cancelled_at"];
            output::list(listing.format.json, &rows, &columns);
        }
        Command::Cancel { id, because, format } => {
            let acting = context.acting(by_shell(ActKind::BatchCancel).on("batch", id).because(because.reason));
            let cancelled = acting.store.batch_cancel(id, None, context.clock.now()).await;
            if !acting.settle(cancelled).await? {
                return Err(Failure::not_found("no running batch has this id"));
            }
            output::show(format.json, &json!({ "cancelled": id }), || {
                format!("{id} is cancelled; the node that works on it ends it within seconds")
            });
        }
    }
    Ok(())
}
