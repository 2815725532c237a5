//! The command line: one binary, one file per command.
//!
//! Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 the log of a server was rolled back or replaced, 70 supervision gave up, 78 configuration. What a person asked for goes to
//! standard output, everything else to standard error.

mod account;
mod activity;
mod add;
mod admin;
mod agent;
mod attach;
mod audit;
mod backup;
mod check;
mod consent;
mod demo;
mod doctor;
mod event;
mod invitation;
mod key;
mod keys;
mod machine;
mod manual;
mod migrate;
mod openapi;
mod output;
mod profile;
mod profiles;
mod remote;
mod search;
mod serve;
mod space;
mod terminal;
mod usage;
mod verify;
mod witness;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::config::{EXTRACT_WORKER, Settings, load};

/// Accounts, consent and provable events for agents: the server, and what speaks to it.
#[derive(Debug, Parser)]
#[command(name = "attache", version, max_term_width = 100)]
struct Arguments {
    /// Configuration file [default: config.toml in the working folder, if it is there]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server (the default)
    Serve(serve::Arguments),
    /// Check the configuration and show every mistake at once
    Check,
    /// Look at everything that the server stands on: data folder, disk, database, statistics, clock
    Doctor(doctor::Arguments),
    /// Bring the databases to the newest schema
    Migrate,
    /// Copies of everything, made beside the living server, and the way back
    #[command(subcommand)]
    Backup(backup::Command),
    /// Print the machine-readable description of both HTTP surfaces (OpenAPI 3.1)
    Openapi,
    /// The keys that sign identity assertions
    #[command(subcommand)]
    Keys(keys::Command),
    /// Read a page or a PDF on standard input as text; the server starts this for itself
    #[command(hide = true, name = EXTRACT_WORKER)]
    ExtractWorker,
    /// Attach this computer to your account: shows a link, waits until you approve
    Attach(attach::Arguments),
    /// This computer, as the server knows it
    #[command(subcommand)]
    Machine(machine::Command),
    /// The agent that acts for your account
    #[command(subcommand)]
    Agent(agent::Command),
    /// The account for which the agent acts, at a glance
    Account(remote::Remote),
    /// What is left of the plan
    Usage(usage::Arguments),
    /// How much may be recorded
    #[command(subcommand)]
    Consent(consent::Command),
    /// What was recorded, newest first, and what is held
    Activity(activity::Arguments),
    /// Check an audit proof against a key that you trust: one in a file offline, that of an event after fetching it
    Verify(verify::Arguments),
    /// The server's log: watch that it only grows
    #[command(subcommand)]
    Audit(audit::Command),
    /// Events: send them on this computer's chain, follow those that come in
    #[command(subcommand)]
    Event(event::Command),
    /// Spaces of the knowledge API, where memories are put
    #[command(subcommand)]
    Space(space::Command),
    /// Remember pages and notes, and watch what becomes of each
    Add(add::Arguments),
    /// Find what is remembered, by meaning and by word
    Search(search::Arguments),
    /// A tour of everything in five minutes, against a server that runs
    Demo(demo::Arguments),
    /// The key of the knowledge API
    #[command(subcommand)]
    Key(key::Command),
    /// What is remembered of servers
    #[command(subcommand)]
    Profile(profiles::Command),
    /// Print what completes commands in a shell
    Completions(manual::CompletionsArguments),
    /// Print the manual page: `attache manual | man -l -`
    Manual,
    /// The operator's commands: they work straight on the database, beside the living server
    #[command(subcommand)]
    Admin(admin::Command),
}

/// Why a command did not do what it was asked.
#[derive(Debug)]
enum Failure {
    /// Exit 1.
    Refused(String),
    /// Exit 3.
    LogViolated(String),
    /// Exit 78.
    Configuration(String),
    /// Exit 70.
    GaveUp(String),
}

impl Failure {
    fn refused(reason: impl std::fmt::Display) -> Self {
        Self::Refused(reason.to_string())
    }

    /// With every cause of the error.
    fn caused(error: impl std::error::Error + 'static) -> Self {
        Self::Refused(domain::reasons(&error))
    }
}

type Done = Result<(), Failure>;

/// Reads the arguments, does what they ask, and says by the exit code how it went.
pub fn main() -> ExitCode {
    let Arguments { config, command } = Arguments::parse();
    let settings =
        || load(config.as_deref(), std::env::vars()).map_err(|problems| Failure::Configuration(problems.to_string()));
    let done = match command.unwrap_or(Command::Serve(serve::Arguments::default())) {
        Command::Serve(arguments) => settings().and_then(|settings| run(serve::serve(settings, arguments))),
        Command::Check => settings().map(|settings| check::report(&settings)),
        Command::Migrate => settings().and_then(|settings| run(async move { migrate::migrate(&settings).await })),
        Command::Doctor(arguments) => {
            settings().and_then(|settings| run(async move { doctor::run(&arguments, &settings).await }))
        }
        Command::Backup(command) => {
            settings().and_then(|settings| run(async move { backup::run(command, &settings).await }))
        }
        Command::Openapi => settings().map(|settings| openapi::print(&settings)),
        Command::Keys(command) => {
            settings().and_then(|settings| run(async move { keys::run(command, &settings).await }))
        }
        // It is handed an empty environment and asks for no configuration.
        Command::ExtractWorker => {
            knowledge::extract::worker::main(std::io::stdin(), std::io::stdout()).map_err(Failure::refused)
        }
        Command::Attach(arguments) => run(attach::attach(arguments)),
        Command::Machine(command) => run(machine::run(command)),
        Command::Agent(command) => run(agent::run(command)),
        Command::Account(remote) => run(async move { account::account(&remote).await }),
        Command::Usage(arguments) => run(async move { usage::usage(&arguments).await }),
        Command::Consent(command) => run(consent::run(command)),
        Command::Activity(arguments) => run(activity::activity(arguments)),
        Command::Verify(arguments) => run(async move { verify::verify(&arguments).await }),
        Command::Audit(command) => run(audit::run(command)),
        Command::Event(command) => run(event::run(command)),
        Command::Space(command) => run(space::run(command)),
        Command::Add(arguments) => run(async move { add::run(&arguments).await }),
        Command::Search(arguments) => run(async move { search::run(&arguments).await }),
        Command::Demo(arguments) => {
            let settings = arguments.is_auto().then(settings).transpose();
            settings.and_then(|settings| run(async move { demo::run(&arguments, settings.as_ref()).await }))
        }
        Command::Key(command) => run(key::run(command)),
        Command::Profile(command) => profiles::run(command),
        Command::Completions(arguments) => {
            manual::completions(&arguments, Arguments::command());
            Ok(())
        }
        Command::Manual => manual::manual(Arguments::command()),
        Command::Admin(command) => {
            settings().and_then(|settings| run(async move { admin::run(command, &settings).await }))
        }
    };
    let (code, reason) = match done {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Refused(reason)) => (1, reason),
        Err(Failure::LogViolated(reason)) => (3, reason),
        Err(Failure::GaveUp(reason)) => (70, reason),
        Err(Failure::Configuration(reason)) => (78, reason),
    };
    output::complain(&reason);
    ExitCode::from(code)
}

fn run(work: impl Future<Output = Done>) -> Done {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| Failure::Refused(format!("the runtime cannot start: {error}")))?.block_on(work)
}

/// Opens the main database beside a server that may be running.
async fn open_store(settings: &Settings) -> Result<store::Store, Failure> {
    crate::installation::open_facts(settings).await.map_err(Failure::caused)
}
