//! `attache admin`: the operator's commands. They access the database directly; a running server applies their changes within about a
//! second.

mod account;
mod act;
mod actor;
mod agent;
mod api_key;
mod balance;
mod batch;
mod capacity;
mod context;
mod held;
mod log;
mod machine;
mod mail;
mod memory;
mod node;
mod objects;
mod options;
mod pause;
mod person;
mod plan;
mod session;
mod tap;
mod token;
mod webhook;

use app::config::Settings;
use clap::Subcommand;

pub use self::context::AdminContext;
use self::options::OutputFormat;
use commands::failure::Done;

pub use session::{SignInAs, sign_in};

/// Subcommands of `attache admin`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create, list and close accounts
    #[command(subcommand)]
    Account(account::Command),
    /// List persons
    #[command(subcommand)]
    Person(person::Command),
    /// Change and list purchased balances
    #[command(subcommand)]
    Balance(balance::Command),
    /// Set the plan of an account
    #[command(subcommand)]
    Plan(plan::Command),
    /// Create, list and end browser sessions
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
    /// List and cancel running batches and imports
    #[command(subcommand)]
    Batch(batch::Command),
    /// List mails that were not sent, send one at once, or give it up
    #[command(subcommand)]
    Mail(mail::Command),
    /// List, disable and enable the webhooks of accounts
    #[command(subcommand)]
    Webhook(webhook::Command),
    /// List, show and verify the acts of operators
    #[command(subcommand)]
    Act(act::Command),
    /// List keys with crashed actors, quarantine, release and restart them
    #[command(subcommand)]
    Actor(actor::Command),
    /// List and drain the servers on this database
    #[command(subcommand)]
    Node(node::Command),
    /// Stop a part of the service for a time, on all nodes
    ///
    /// Senders get 424 `paused` with Retry-After; nothing that was accepted is lost. Running batches stop between two items, mail and notifications wait.
    Pause(pause::PauseOptions),
    /// End a pause early
    Resume(pause::PauseTarget),
    /// List the pauses in force
    Pauses(OutputFormat),
    /// Show samples of the events that senders submit to this server, without their content
    Tap(tap::TapOptions),
    /// Create tokens for the operator's API
    #[command(subcommand)]
    Token(token::Command),
    /// Compute the rows, bytes and database servers that a number of computers needs
    Capacity(capacity::CapacityOptions),
    /// Begin new epochs of the event log
    #[command(subcommand)]
    Log(log::Command),
    /// Move pages and notes into a separate database
    #[command(subcommand)]
    Memory(memory::Command),
}

/// Opens the main database and runs the subcommand.
pub async fn run(command: Command, settings: &Settings) -> Done {
    match &command {
        // Without a database, which may be away.
        Command::Token(command) => {
            token::run(command);
            return Ok(());
        }
        Command::Capacity(options) => {
            capacity::capacity(options);
            return Ok(());
        }
        Command::Actor(command) => return actor::run(command, settings).await,
        Command::Tap(options) => return tap::run(options, settings).await,
        Command::Node(node::Command::Drain(change)) => return node::change(settings, true, change).await,
        Command::Node(node::Command::Undrain(change)) => return node::change(settings, false, change).await,
        Command::Node(node::Command::Actors(options)) => return node::actors(settings, options).await,
        Command::Node(node::Command::RestartActor(options)) => return node::restart_actor(settings, options).await,
        _ => {}
    }
    let context = AdminContext::open(settings).await?;
    let result = match command {
        Command::Account(command) => account::run(command, &context).await,
        Command::Person(command) => person::run(command, &context).await,
        Command::Balance(command) => balance::run(command, &context).await,
        Command::Plan(command) => plan::run(command, &context).await,
        Command::Session(command) => session::run(command, &context).await,
        Command::Machine(command) => machine::run(command, &context).await,
        Command::Agent(command) => agent::run(command, &context).await,
        Command::ApiKey(command) => api_key::run(command, &context).await,
        Command::Held(command) => held::run(command, &context).await,
        Command::Batch(command) => batch::run(command, &context).await,
        Command::Mail(command) => mail::run(command, &context).await,
        Command::Webhook(command) => webhook::run(command, &context).await,
        Command::Act(command) => act::run(command, &context).await,
        Command::Pause(options) => pause::pause(options, &context).await,
        Command::Resume(target) => pause::resume(target, &context).await,
        Command::Pauses(format) => pause::list(format, &context).await,
        Command::Node(node::Command::List(format)) => node::run(format, &context).await,
        Command::Log(command) => log::run(command, &context).await,
        Command::Memory(command) => memory::run(command, &context).await,
        Command::Actor(_) | Command::Capacity(_) | Command::Tap(_) | Command::Token(_) | Command::Node(_) => Ok(()),
    };
    context.store.close().await;
    result
}
