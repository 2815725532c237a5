//! `attache admin batch`: lists and cancels running batches.

use app::objects::ObjectChange;
use app::queues;
use clap::Subcommand;

use super::context::AdminContext;
use super::objects::{ObjectOptions, change, list};
use super::options::Listing;
use commands::failure::Done;

/// Subcommands of `attache admin batch`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List running batches and imports, oldest first
    List(Listing),
    /// Cancel a running batch: its items without an outcome are not added
    Cancel(ObjectOptions),
}

/// Runs the subcommand.
pub async fn run(command: Command, context: &AdminContext<'_>) -> Done {
    match command {
        Command::List(listing) => {
            let rows = context.store.batches_running(None, listing.limit).await;
            let columns = ["id", "kind", "user_account_id", "total", "processed", "created_at", "cancelled_at"];
            list(listing, rows, queues::batch, &columns)
        }
        Command::Cancel(options) => {
            let effect = "is cancelled; the node that works on it ends it within seconds";
            change(context, ObjectChange::CancelBatch, options, effect).await
        }
    }
}
