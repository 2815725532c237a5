//! `attache admin`: the operator's commands, straight on the database, beside the living server. What they change, the server sees
//! within about a second.

mod account;
mod agent;
mod api_key;
mod balance;
mod held;
mod machine;
mod plan;
mod session;

use clap::{Args, Subcommand};
use domain::ids::{Email, UserAccountId};
use domain::{Clock, Rng};
use store::Store;

use super::{Done, Failure, open_store};
use crate::config::Settings;

pub use session::sign_in;

/// Of what.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Accounts
    #[command(subcommand)]
    Account(account::Command),
    /// Purchased balances
    #[command(subcommand)]
    Balance(balance::Command),
    /// What accounts have paid for
    #[command(subcommand)]
    Plan(plan::Command),
    /// Browser sessions
    #[command(subcommand)]
    Session(session::Command),
    /// Computers
    #[command(subcommand)]
    Machine(machine::Command),
    /// Agents
    #[command(subcommand)]
    Agent(agent::Command),
    /// Keys of the knowledge API
    #[command(subcommand)]
    ApiKey(api_key::Command),
    /// Events that could not be forwarded
    #[command(subcommand)]
    Held(held::Command),
}

/// How to print.
#[derive(Debug, Clone, Copy, Args)]
pub struct Format {
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// How much to list.
#[derive(Debug, Clone, Copy, Args)]
pub struct Listing {
    /// Rows at most, newest first
    #[arg(long, default_value_t = 100)]
    limit: usize,
    #[command(flatten)]
    format: Format,
}

/// Which account.
#[derive(Debug, Clone, Args)]
#[group(id = "which", required = true, multiple = false)]
pub struct Which {
    /// The account
    #[arg(long)]
    account: Option<UserAccountId>,
    /// The address of the person who owns it
    #[arg(long)]
    email: Option<Email>,
}

/// What every command works with.
struct AdminContext<'s> {
    settings: &'s Settings,
    store: Store,
    clock: Clock,
    rng: Rng,
}

impl AdminContext<'_> {
    /// The id of the account that an operator names. Whether there is one with that id, the command finds out.
    async fn account(&self, which: &Which) -> Result<UserAccountId, Failure> {
        match (&which.account, &which.email) {
            (Some(account), _) => Ok(account.clone()),
            (None, Some(email)) => {
                let found = self.store.account_by_email(email).await.map_err(Failure::caused)?;
                found.ok_or_else(no_account)
            }
            (None, None) => Err(no_account()),
        }
    }
}

fn no_account() -> Failure {
    Failure::refused("no such account")
}

/// Does it.
pub async fn run(command: Command, settings: &Settings) -> Done {
    let office =
        AdminContext { settings, store: open_store(settings).await?, clock: Clock::system(), rng: Rng::system() };
    let done = match command {
        Command::Account(command) => account::run(command, &office).await,
        Command::Balance(command) => balance::run(command, &office).await,
        Command::Plan(command) => plan::run(command, &office).await,
        Command::Session(command) => session::run(command, &office).await,
        Command::Machine(command) => machine::run(command, &office).await,
        Command::Agent(command) => agent::run(command, &office).await,
        Command::ApiKey(command) => api_key::run(command, &office).await,
        Command::Held(command) => held::run(command, &office).await,
    };
    office.store.close().await;
    done
}
