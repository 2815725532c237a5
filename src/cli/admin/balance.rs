//! `attache admin balance`: changes and lists purchased balances.

use clap::Subcommand;
use domain::act::{ActKind, ActReason};
use serde_json::{Value, json};
use store::balance::BalanceAdd;

use super::context::{AdminContext, no_account};
use super::options::{AccountSelector, Listing, OutputFormat};
use crate::cli::acts::by_shell;
use commands::failure::{Done, Failure};
use commands::output;
use domain::clock::date_time;

/// Subcommands of `attache admin balance`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Add an entry to a balance, with its reason
    Add {
        #[command(flatten)]
        which: AccountSelector,
        /// Amount in US cents; negative to subtract
        #[arg(long, allow_negative_numbers = true)]
        cents: i64,
        /// Reason of the entry, which the record of this act names too
        #[arg(long)]
        reason: ActReason,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// List the entries of a balance
    List {
        #[command(flatten)]
        which: AccountSelector,
        #[command(flatten)]
        listing: Listing,
    },
}

/// Runs the subcommand.
pub async fn run(command: Command, context: &AdminContext<'_>) -> Done {
    let AdminContext { store, clock, rng, .. } = context;
    match command {
        Command::Add { which, cents, reason, format } => {
            let account = context.account(&which).await?;
            let act = by_shell(ActKind::BalanceAdd).on("account", &account).because(Some(reason.clone()));
            let acting = context.acting(act);
            let added = acting.store.balance_add(&account, cents, reason.as_str(), clock.now(), rng).await;
            match acting.settle(added).await.map_err(Failure::caused)? {
                BalanceAdd::Added(balance) => {
                    let answer = json!({ "user_account_id": account, "cents": cents, "balance_cents": balance });
                    output::show(format.json, &answer, || format!("the balance of {account} is {balance} cents now"));
                    Ok(())
                }
                BalanceAdd::NoAccount => Err(no_account()),
                BalanceAdd::OutOfRange => Err(Failure::refused("the balance would be out of range")),
            }
        }
        Command::List { which, listing } => {
            let account = context.account(&which).await?;
            if store.account_by_id(&account).await.map_err(Failure::caused)?.is_none() {
                return Err(no_account());
            }
            let entries = store.balance_entries(&account, listing.limit).await.map_err(Failure::caused)?;
            let rows: Vec<Value> = entries
                .iter()
                .map(|entry| {
                    json!({
                        "id": entry.id,
                        "user_account_id": entry.account,
                        "cents": entry.cents,
                        "reason": entry.reason,
                        "created_at": date_time(entry.created_at),
                    })
                })
                .collect();
            output::list(listing.format.json, &rows, &["created_at", "cents", "reason"]);
            Ok(())
        }
    }
}
