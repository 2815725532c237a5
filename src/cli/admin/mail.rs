//! `attache admin mail`: mails that were not sent.

use app::queues;
use clap::{Args, Subcommand};
use domain::act::ActKind;
use domain::ids::MailId;
use serde_json::{Value, json};

use super::context::AdminContext;
use super::options::{Listing, OutputFormat};
use crate::cli::acts::{Because, by_shell};
use crate::cli::failure::{Done, Failure};
use crate::cli::output;

/// Subcommands of `attache admin mail`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List mails that were not sent, oldest first; sign-in codes are not among them
    List(Listing),
    /// Send a mail at once, also after it was given up
    Retry(MailOptions),
    /// Give a mail up: it is not sent
    GiveUp(MailOptions),
}

/// A mail from the list.
#[derive(Debug, Args)]
pub struct MailOptions {
    /// Id from the list
    id: MailId,
    #[command(flatten)]
    because: Because,
    #[command(flatten)]
    format: OutputFormat,
}

/// Runs the subcommand.
pub async fn run(command: Command, context: &AdminContext<'_>) -> Done {
    match command {
        Command::List(listing) => {
            let found = context.store.mails_unsent(None, listing.limit).await.map_err(Failure::caused)?;
            let rows: Vec<Value> = found.into_iter().map(|mail| json!(queues::mail(mail))).collect();
            let columns = ["id", "to", "subject", "created_at", "tries", "next_try_at", "given_up_at"];
            output::list(listing.format.json, &rows, &columns);
            Ok(())
        }
        Command::Retry(options) => steer(context, ActKind::MailRetry, options).await,
        Command::GiveUp(options) => steer(context, ActKind::MailGiveUp, options).await,
    }
}

async fn steer(context: &AdminContext<'_>, kind: ActKind, MailOptions { id, because, format }: MailOptions) -> Done {
    let acting = context.acting(by_shell(kind).on("mail", id).because(because.reason));
    let give_up = kind == ActKind::MailGiveUp;
    let changed = acting.store.mail_steer(id, give_up, context.clock.now()).await;
    if !acting.settle(changed).await? {
        return Err(Failure::not_found("no mail with this id waits: it was sent, is being sent, or never existed"));
    }
    output::show(format.json, &json!({ "mail": id, "given_up": give_up }), || {
        if give_up { format!("{id} is given up") } else { format!("{id} is sent within seconds") }
    });
    Ok(())
}
