//! `attache admin`: the operator's commands. They work on the database directly; a running server sees their changes within about a second.

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

/// Subcommands of `attache admin`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create and list accounts
    #[command(subcommand)]
    Account(account::Command),
    /// Change and list purchased balances
    #[command(subcommand)]
    Balance(balance::Command),
    /// Set the plan of an account
    #[command(subcommand)]
    Plan(plan::Command),
    /// Create browser sessions
    #[command(subcommand)]
    Session(session::Command),
    /// Register, attach, list and remove computers
    #[command(subcommand)]
    Machine(machine::Command),
    /// List and revoke agents
    #[command(subcommand)]
    Agent(agent::Command),
    /// Create, list and revoke API keys
    #[command(subcommand)]
    ApiKey(api_key::Command),
    /// List, show, release and discard held events
    #[command(subcommand)]
    Held(held::Command),
}

/// Output format of a command.
#[derive(Debug, Clone, Copy, Args)]
pub struct Format {
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Options of listings.
#[derive(Debug, Clone, Copy, Args)]
pub struct Listing {
    /// Maximum number of rows, newest first
    #[arg(long, default_value_t = 100)]
    limit: usize,
    #[command(flatten)]
    format: Format,
}

/// Selects an account by its id or by its owner.
#[derive(Debug, Clone, Args)]
#[group(id = "which", required = true, multiple = false)]
pub struct AccountSelector {
    /// Id of the account
    #[arg(long)]
    account: Option<UserAccountId>,
    /// E-mail address of the account's owner
    #[arg(long)]
    email: Option<Email>,
}

/// Shared state of the commands.
struct AdminContext<'s> {
    settings: &'s Settings,
    store: Store,
    clock: Clock,
    rng: Rng,
}

impl AdminContext<'_> {
    /// The id of the selected account. An id from `--account` is not checked; the command itself reports an unknown one.
    async fn account(&self, which: &AccountSelector) -> Result<UserAccountId, Failure> {
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
    Failure::refused("the account does not exist")
}

/// Opens the main database and runs the subcommand.
pub async fn run(command: Command, settings: &Settings) -> Done {
    let context =
        AdminContext { settings, store: open_store(settings).await?, clock: Clock::system(), rng: Rng::system() };
    let done = match command {
        Command::Account(command) => account::run(command, &context).await,
        Command::Balance(command) => balance::run(command, &context).await,
        Command::Plan(command) => plan::run(command, &context).await,
        Command::Session(command) => session::run(command, &context).await,
        Command::Machine(command) => machine::run(command, &context).await,
        Command::Agent(command) => agent::run(command, &context).await,
        Command::ApiKey(command) => api_key::run(command, &context).await,
        Command::Held(command) => held::run(command, &context).await,
    };
    context.store.close().await;
    done
}
