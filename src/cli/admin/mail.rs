//! `attache admin mail`: mails that were not sent.

use app::objects::ObjectChange;
use app::queues;
use clap::Subcommand;

use super::context::AdminContext;
use super::objects::{ObjectOptions, change, list};
use super::options::Listing;
use commands::failure::Done;

/// Subcommands of `attache admin mail`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List mails that were not sent, oldest first; sign-in codes are not among them
    List(Listing),
    /// Send a mail at once, also after it was given up
    Retry(ObjectOptions),
    /// Give a mail up: it is not sent
    GiveUp(ObjectOptions),
}

/// Runs the subcommand.
pub async fn run(command: Command, context: &AdminContext<'_>) -> Done {
    match command {
        Command::List(listing) => {
            let rows = context.store.mails_unsent(None, listing.limit).await;
            let columns = ["id", "to", "subject", "created_at", "tries", "next_try_at", "given_up_at"];
            list(listing, rows, queues::mail, &columns)
        }
        Command::Retry(options) => change(context, ObjectChange::RetryMail, options, "is sent within seconds").await,
        Command::GiveUp(options) => change(context, ObjectChange::GiveUpMail, options, "is given up").await,
    }
}
