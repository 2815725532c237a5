//! The command line: one binary, one file per command.
//!
//! Exit codes: 0 success, 1 failure, 2 usage error, 3 the log of a server was rolled back, forked or replaced, 70 the restart budget is spent,
//! 78 invalid configuration. Results are printed to standard output, progress and errors to standard error.

mod account;
mod activity;
mod add;
mod admin;
mod agent;
mod api_key;
mod approval_prompt;
mod attach;
mod audit;
mod backup;
mod check;
mod connection;
mod consent;
mod demo;
mod doctor;
mod event;
mod failure;
mod hangup;
mod help;
mod machine;
mod main_database;
mod manual;
mod migrate;
mod openapi;
mod output;
mod profile;
mod profile_folder;
mod search;
mod serve;
mod signing_keys;
mod space;
mod terminal;
mod usage;
mod verify;
mod witness;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use app::config::{EXTRACT_WORKER, load};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use self::failure::{Done, Failure};

/// Accounts, consent and provable events for agents: server, operator's tools and client.
#[derive(Debug, Parser)]
#[command(name = "attache", version, max_term_width = 100)]
struct Arguments {
    /// Configuration file [default: config.toml in the working folder, if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server (the default)
    Serve(serve::Arguments),
    /// Check the configuration and report every mistake
    Check,
    /// Diagnose the data folder, disk, databases, statistics service, running server and clock
    Doctor(doctor::Arguments),
    /// Migrate the databases to the current schema
    Migrate,
    /// Create, verify and restore backups
    #[command(subcommand)]
    Backup(backup::Command),
    /// Print the OpenAPI 3.1 description of both HTTP APIs
    Openapi,
    /// List and rotate the keys that sign identity assertions
    #[command(subcommand)]
    Keys(signing_keys::Command),
    /// Extract the text of a page or PDF from standard input (started by the server)
    #[command(hide = true, name = EXTRACT_WORKER)]
    ExtractWorker,
    /// Attach this computer to your account
    Attach(attach::Arguments),
    /// Register and show this computer
    #[command(subcommand)]
    Machine(machine::Command),
    /// Register, claim, show and revoke the agent of this profile
    #[command(subcommand)]
    Agent(agent::Command),
    /// Show the account for which the agent acts
    Account(connection::Remote),
    /// Show the remaining allowance of the plan
    Usage(usage::Arguments),
    /// Show or set how much may be recorded
    #[command(subcommand)]
    Consent(consent::Command),
    /// Show recorded and held events, newest first
    Activity(activity::Arguments),
    /// Verify the audit proof of an event, or of a proof in a file offline
    Verify(verify::Arguments),
    /// Monitor the server's log for rollbacks and forks
    #[command(subcommand)]
    Audit(audit::Command),
    /// Send and follow events
    #[command(subcommand)]
    Event(event::Command),
    /// Create and list spaces of the knowledge API
    #[command(subcommand)]
    Space(space::Command),
    /// Add pages and notes to the knowledge base and show their progress
    Add(add::Arguments),
    /// Search pages and notes by meaning and by keyword
    Search(search::Arguments),
    /// Show all features in a five-minute tour of a running server
    Demo(demo::Arguments),
    /// Store or delete the API key of the knowledge API
    #[command(subcommand)]
    Key(api_key::Command),
    /// Manage profiles (saved servers and credentials)
    #[command(subcommand)]
    Profile(profile::Command),
    /// Print a shell completion script
    Completions(manual::CompletionsArguments),
    /// Print the manual page: `attache manual | man -l -`
    Manual,
    /// Administer accounts, computers, agents, API keys and held events
    #[command(subcommand)]
    Admin(admin::Command),
}

/// Parses the arguments, runs the command, and returns its exit code.
pub fn main() -> ExitCode {
    let Arguments { config, command } = arguments();
    let settings =
        || load(config.as_deref(), std::env::vars()).map_err(|problems| Failure::Configuration(problems.to_string()));
    let done = match command.unwrap_or(Command::Serve(serve::Arguments::default())) {
        Command::Serve(arguments) => {
            settings().and_then(|settings| run(serve::serve(config.clone(), settings, arguments)))
        }
        Command::Check => settings().map(|settings| check::report(&settings)),
        Command::Migrate => settings().and_then(|settings| run(async move { migrate::migrate(&settings).await })),
        Command::Doctor(arguments) => {
            settings().and_then(|settings| run(async move { Box::pin(doctor::run(&arguments, &settings)).await }))
        }
        Command::Backup(command) => {
            settings().and_then(|settings| run(async move { backup::run(command, &settings).await }))
        }
        Command::Openapi => settings().map(|settings| openapi::print(&settings)),
        Command::Keys(command) => {
            settings().and_then(|settings| run(async move { signing_keys::run(command, &settings).await }))
        }
        // Runs with an empty environment and reads no configuration.
        Command::ExtractWorker => {
            knowledge::extract::worker::main(std::io::stdin(), std::io::stdout()).map_err(Failure::caused)
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
        Command::Key(command) => run(api_key::run(command)),
        Command::Profile(command) => profile::run(command),
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
    output::print_error(&reason);
    ExitCode::from(code)
}

/// Parses the arguments; prints help, version or a usage error and exits if that is what they result in.
fn arguments() -> Arguments {
    let mut program = help::grouped(Arguments::command());
    let matches = program.get_matches_mut();
    Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut program).exit())
}

/// Longest wait for threads that are still at work when a command has ended.
const THREADS_END_WITHIN: Duration = Duration::from_millis(500);

fn run(work: impl Future<Output = Done>) -> Done {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Refused(format!("the runtime cannot start: {error}")))?;
    let done = runtime.block_on(work);
    // A thread may wait for a name that cannot be resolved, or for a disk.
    runtime.shutdown_timeout(THREADS_END_WITHIN);
    done
}
