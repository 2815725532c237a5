//! `attache admin balance`

use clap::Subcommand;
use serde_json::{Value, json};
use store::balance::BalanceAdd;

use super::{AdminContext, Format, Listing, Which, no_account};
use crate::cli::{Done, Failure, output};
use domain::clock::date_time;

/// What to do with them.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Add to a balance, or take from it, and write down why
    Add {
        #[command(flatten)]
        which: Which,
        /// US cents; negative to take
        #[arg(long, allow_negative_numbers = true)]
        cents: i64,
        /// What for
        #[arg(long)]
        reason: String,
        #[command(flatten)]
        format: Format,
    },
    /// Show the entries of a balance
    List {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        listing: Listing,
    },
}

/// Does it.
pub async fn run(command: Command, office: &AdminContext<'_>) -> Done {
    let AdminContext { store, clock, rng, .. } = office;
    match command {
        Command::Add { which, cents, reason, format } => {
            let reason = reason.trim();
            if reason.is_empty() {
                return Err(Failure::refused("--reason must say something"));
            }
            let account = office.account(&which).await?;
            let added = store.balance_add(&account, cents, reason, clock.now(), rng).await;
            match added.map_err(Failure::caused)? {
                BalanceAdd::Added(balance) => {
                    let answer = json!({ "user_account_id": account, "cents": cents, "balance_cents": balance });
                    output::show(format.json, &answer, || format!("the balance of {account} is {balance} cents now"));
                    Ok(())
                }
                BalanceAdd::NoAccount => Err(no_account()),
                BalanceAdd::OutOfRange => Err(Failure::refused("no balance may be that far from 0")),
            }
        }
        Command::List { which, listing } => {
            let account = office.account(&which).await?;
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
