//! `attache admin account`

use clap::Subcommand;
use domain::ids::{Email, UserCuid};
use serde_json::{Value, json};
use store::account::Provision;

use super::{AdminContext, Format, Listing};
use crate::cli::{Done, Failure, output};
use domain::clock::date_time;

/// What to do with them.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make an account: for a person, for the identity on a computer, for both, or for nobody yet
    Create {
        /// The identity that lives on computers
        #[arg(long)]
        user_cuid: Option<UserCuid>,
        /// The person who owns it
        #[arg(long)]
        email: Option<Email>,
        /// What to call it
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        format: Format,
    },
    /// Show accounts
    List(Listing),
}

/// Does it.
pub async fn run(command: Command, office: &AdminContext<'_>) -> Done {
    let AdminContext { store, clock, rng, .. } = office;
    match command {
        Command::Create { user_cuid, email, name, format } => {
            let made = store.account_provision(user_cuid.as_ref(), email.as_ref(), name.as_deref(), clock.now(), rng);
            match made.await.map_err(Failure::caused)? {
                Provision::Created(id) => {
                    output::show(format.json, &json!({ "user_account_id": id }), || format!("account {id} is made"));
                    Ok(())
                }
                Provision::IdentityLinked => Err(Failure::refused("that identity is linked to an account already")),
                Provision::PersonHasAccount => Err(Failure::refused("that person has an account already")),
            }
        }
        Command::List(listing) => {
            let accounts = store.accounts(listing.limit).await.map_err(Failure::caused)?;
            let rows: Vec<Value> = accounts
                .iter()
                .map(|account| {
                    json!({
                        "user_account_id": account.id,
                        "plan": account.plan.as_str(),
                        "balance_cents": account.balance_cents,
                        "name": account.name,
                        "created_at": date_time(account.created_at),
                    })
                })
                .collect();
            output::list(
                listing.format.json,
                &rows,
                &["user_account_id", "plan", "balance_cents", "name", "created_at"],
            );
            Ok(())
        }
    }
}
