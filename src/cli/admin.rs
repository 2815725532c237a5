//! `attache admin`: the operator's commands, straight on the database, beside the living server. What they change, the server sees
//! within about a second.

mod account;
mod agent;
mod api_key;
mod held;
mod machine;
mod session;

use clap::{Args, Subcommand};
use domain::{Chance, Clock};
use store::Store;

use super::{Done, open_store};
use crate::config::Settings;

/// Of what.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Accounts
    #[command(subcommand)]
    Account(account::Command),
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

/// What every command works with.
struct Office<'s> {
    settings: &'s Settings,
    store: Store,
    clock: Clock,
    chance: Chance,
}

/// Does it.
pub async fn run(command: Command, settings: &Settings) -> Done {
    let office =
        Office { settings, store: open_store(settings).await?, clock: Clock::system(), chance: Chance::system() };
    let done = match command {
        Command::Account(command) => account::run(command, &office).await,
        Command::Session(command) => session::run(command, &office).await,
        Command::Machine(command) => machine::run(command, &office).await,
        Command::Agent(command) => agent::run(command, &office).await,
        Command::ApiKey(command) => api_key::run(command, &office).await,
        Command::Held(command) => held::run(command, &office).await,
    };
    office.store.close().await;
    done
}
