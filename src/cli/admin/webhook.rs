//! `attache admin webhook`: endpoints of accounts.

use app::objects::ObjectChange;
use app::queues;
use clap::Subcommand;

use super::context::AdminContext;
use super::objects::{ObjectOptions, change, list};
use super::options::Listing;
use commands::failure::Done;

/// Subcommands of `attache admin webhook`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the webhooks of all accounts, oldest first, with the host of their URL only
    List(Listing),
    /// Disable a webhook until an operator enables it; its notifications wait
    Disable(ObjectOptions),
    /// Enable a webhook that an operator or the server disabled
    Enable(ObjectOptions),
}

/// Runs the subcommand.
pub async fn run(command: Command, context: &AdminContext<'_>) -> Done {
    match command {
        Command::List(listing) => {
            let rows = context.store.webhooks_overview(None, listing.limit).await;
            let columns = [
                "id",
                "user_account_id",
                "host",
                "disabled_reason",
                "failures",
                "last_success_at",
                "last_failure_at",
                "waiting",
                "oldest_waiting_at",
            ];
            list(listing, rows, queues::webhook, &columns)
        }
        Command::Disable(options) => {
            let effect = "is disabled; its notifications wait, and only an operator enables it";
            change(context, ObjectChange::DisableWebhook, options, effect).await
        }
        Command::Enable(options) => {
            let effect = "is enabled, unless its owner disabled it too";
            change(context, ObjectChange::EnableWebhook, options, effect).await
        }
    }
}
