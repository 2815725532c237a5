//! `attache admin person`: lists the persons who can sign in.

use clap::Subcommand;
use serde_json::{Value, json};

use super::context::AdminContext;
use super::options::{AccountFilter, Listing};
use commands::failure::{Done, Failure};
use commands::output;

/// Subcommands of `attache admin person`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List persons with their accounts
    List {
        #[command(flatten)]
        whose: AccountFilter,
        #[command(flatten)]
        listing: Listing,
    },
}

/// Runs the subcommand.
pub async fn run(command: Command, context: &AdminContext<'_>) -> Done {
    let Command::List { whose, listing } = command;
    let store = &context.store;
    let persons = match context.filter(whose).await? {
        None => store.persons(listing.limit).await.map_err(Failure::caused)?,
        Some(account) => {
            let owner = store.account_by_id(&account).await.map_err(Failure::caused)?.and_then(|account| account.owner);
            match owner {
                Some((person, _)) => store.person_by_id(person).await.map_err(Failure::caused)?.into_iter().collect(),
                None => Vec::new(),
            }
        }
    };
    let rows: Vec<Value> = persons
        .iter()
        .map(|person| {
            json!({
                "person_id": person.id,
                "email": person.email,
                "name": person.name,
                "user_account_id": person.account,
            })
        })
        .collect();
    output::list(listing.format.json, &rows, &["person_id", "email", "name", "user_account_id"]);
    Ok(())
}
