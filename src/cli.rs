//! The command line: one binary, one file per command (`docs/decisions/0019-one-binary.md`).
//!
//! `failure::FailureKind` lists the exit codes. Results are printed to standard output, progress and errors to standard error.

mod account;
mod activity;
mod acts;
mod add;
mod admin;
mod agent;
mod api_key;
mod approval_prompt;
mod attach;
mod audit;
mod backup;
mod check;
mod configuration;
mod connect;
mod connection;
mod consent;
mod costs;
pub mod demo;
mod doctor;
mod ending;
mod event;
mod examples;
mod failure;
mod hangup;
mod help;
mod hook;
mod import;
mod login;
mod machine;
mod main_database;
mod manual;
mod mcp;
mod migrate;
mod moment;
mod open;
mod openapi;
mod operator_client;
mod otlp;
mod output;
mod pause;
mod profile;
mod profile_folder;
mod receipt;
mod replacement;
mod search;
mod serve;
mod service_manager;
mod session;
mod signing_keys;
mod space;
mod start_screen;
mod status;
mod tap;
mod terminal;
mod top;
mod usage;
mod verify;
mod whoami;
mod witness;

use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use app::config::EXTRACT_WORKER;
use app::config::reading::load_layers;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use self::failure::{Done, Failure, FailureKind};

/// Accounts, consent and provable events for agents: server, operator's tools and client.
#[derive(Debug, Parser)]
#[command(name = "attache", version, max_term_width = 100, arg_required_else_help = true)]
struct Arguments {
    /// Configuration file [default: config.toml in the working folder, if it exists]
    // The help of the commands that read it names it (help.rs): every other command accepts it too.
    #[arg(long, global = true, value_name = "FILE", hide = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server
    Serve(serve::Arguments),
    /// Check the configuration and report every mistake
    Check,
    /// Show the settings, and override live ones for a time
    #[command(subcommand)]
    Config(configuration::Command),
    /// Diagnose the data folder, disk, databases, statistics service, running server and clock
    Doctor(doctor::Arguments),
    /// Show whether the server of this configuration is ready, for checks of containers
    Health,
    /// Watch the actors of a running server and steer them
    ///
    /// Keys restart, quarantine, pause, drain and reload; each asks for a reason and is an act on record. `?` lists the keys, `Q` ends.
    Top(top::Arguments),
    /// Migrate the databases to the current schema
    Migrate(migrate::Arguments),
    /// Create, verify and restore backups
    #[command(subcommand)]
    Backup(backup::Command),
    /// Print the OpenAPI 3.1 description of both HTTP APIs
    Openapi(openapi::Arguments),
    /// List and rotate the keys that sign identity assertions
    #[command(subcommand)]
    Keys(signing_keys::Command),
    /// Extract the text of a page or PDF from standard input (started by the server)
    #[command(hide = true, name = EXTRACT_WORKER)]
    ExtractWorker,
    /// Connect this computer to a server: one approval for events and memory
    Login(login::Arguments),
    /// Show which account, computer and key this profile uses
    Whoami(connection::Remote),
    /// Show whether the server answers and what works
    Status(status::Arguments),
    /// Open a page of the server in the browser
    Open(open::Arguments),
    /// Connect a tool such as claude-code: one approval, hooks and MCP server
    Connect(connect::Arguments),
    /// Undo what `connect` wrote, and end the tool's agent
    Disconnect(connect::DisconnectArguments),
    /// Attach this computer to your account, without a key for the memory
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
    /// Show tokens and costs of models
    Costs(costs::Arguments),
    /// Show or set how much may be recorded
    #[command(subcommand)]
    Consent(consent::Command),
    /// Pause recording for a time; it continues by itself
    ///
    /// Until then nothing is recorded, whichever levels are set, and no level changes. A computer may pause itself, and end the pause that it
    /// began; a person may pause and continue every computer on the consent page.
    Pause(pause::Arguments),
    /// Show recorded and held events, newest first
    Activity(activity::Arguments),
    /// Show the sessions of agents, and the events of one
    #[command(subcommand)]
    Session(session::Command),
    /// Verify the audit proof of an event, or a proof or receipt in a file offline
    Verify(verify::Arguments),
    /// Write a receipt of recorded events for a pull request: a file with proofs, and Markdown
    ///
    /// The file has the leaf of each event and its path to one signed checkpoint, so that anyone can check it offline: `attache verify receipt`, or
    /// the page /verify. It has metadata only, unless --with-content is given. The Markdown on standard output is for the description of the pull
    /// request.
    Receipt(receipt::Arguments),
    /// Monitor the server's log for rollbacks and forks
    #[command(subcommand)]
    Audit(audit::Command),
    /// Send and follow events
    #[command(subcommand)]
    Event(event::Command),
    /// Add the memories of an export
    Import(import::Arguments),
    /// Create and list spaces of the knowledge API
    #[command(subcommand)]
    Space(space::Command),
    /// Add pages, notes and folders to the memory and show their progress
    Add(add::Arguments),
    /// Search pages and notes by meaning and by keyword
    Search(search::Arguments),
    /// Record the work of a coding agent, which runs this command on its hooks
    ///
    /// The command prints nothing and returns 0, so that it cannot disturb the agent. It appends an event to a file in the profile's folder, and a
    /// process in the background sends it. Consent applies twice: when the event is written, and when it is sent.
    Hook(hook::Arguments),
    /// Receive OpenTelemetry spans of programs on this computer and record model calls, tools and agents
    ///
    /// Programs export with OTLP over HTTP. The command appends events to the files that hooks use, and a process in the background sends them.
    /// Consent applies twice: when the event is written, and when it is sent.
    Otlp(otlp::Arguments),
    /// Serve this profile's tools to a program that speaks MCP, on standard input and output
    Mcp(mcp::Arguments),
    /// Show all features in a tour of a running server, or of one that it starts
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
    /// List the exit codes, and the members of failures with --json
    #[command(hide = true)]
    ExitCodes,
}

/// Parses the arguments, runs the command, and returns its exit code.
pub fn main() -> ExitCode {
    // A coding agent waits for its hooks, so hooks are handled before the command line is built.
    if let Some(code) = hook::intercepted(std::env::args_os()) {
        return code;
    }
    let (Arguments { config, command }, is_json) = arguments();
    let layers = || {
        load_layers(config.as_deref(), std::env::vars())
            .map_err(|problems| Failure::of(FailureKind::Configuration, problems.to_string()))
    };
    let settings = || layers().map(|layers| layers.settings);
    let result = match command {
        Command::Serve(arguments) => layers().and_then(|layers| run(serve::serve(layers, arguments))),
        Command::Check => settings().map(|settings| check::report(&settings)),
        Command::Config(command) => layers().and_then(|layers| run(configuration::run(command, layers))),
        Command::Migrate(arguments) => {
            settings().and_then(|settings| run(async move { migrate::run(arguments, &settings).await }))
        }
        Command::Doctor(arguments) => {
            settings().and_then(|settings| run(async move { Box::pin(doctor::run(&arguments, &settings)).await }))
        }
        Command::Health => settings().and_then(|settings| run(async move { doctor::health(&settings).await })),
        Command::Top(arguments) => {
            let settings = arguments.is_local().then(settings).transpose();
            settings.and_then(|settings| run(async move { top::run(&arguments, settings.as_ref()).await }))
        }
        Command::Backup(command) => {
            settings().and_then(|settings| run(async move { backup::run(command, &settings).await }))
        }
        Command::Openapi(arguments) => settings().map(|settings| openapi::print(&arguments, &settings)),
        Command::Keys(command) => {
            settings().and_then(|settings| run(async move { signing_keys::run(command, &settings).await }))
        }
        // Runs with an empty environment and reads no configuration.
        Command::ExtractWorker => extract::worker::main(std::io::stdin(), std::io::stdout()).map_err(Failure::caused),
        Command::Login(arguments) => run(login::login(arguments)),
        Command::Whoami(remote) => run(async move { whoami::whoami(&remote).await }),
        Command::Status(arguments) => run(async move { status::status(&arguments).await }),
        Command::Open(arguments) => open::open(&arguments),
        Command::Connect(arguments) => run(connect::connect(arguments)),
        Command::Disconnect(arguments) => run(connect::disconnect(arguments)),
        Command::Attach(arguments) => run(attach::attach(arguments)),
        Command::Machine(command) => run(machine::run(command)),
        Command::Agent(command) => run(agent::run(command)),
        Command::Account(remote) => run(async move { account::account(&remote).await }),
        Command::Usage(arguments) => run(async move { usage::usage(&arguments).await }),
        Command::Costs(arguments) => run(costs::costs(arguments)),
        Command::Consent(command) => run(consent::run(command)),
        Command::Pause(arguments) => run(pause::pause(arguments)),
        Command::Activity(arguments) => run(activity::activity(arguments)),
        Command::Session(command) => run(session::run(command)),
        Command::Verify(arguments) => run(async move { verify::verify(&arguments).await }),
        Command::Receipt(arguments) => run(async move { receipt::receipt(&arguments).await }),
        Command::Audit(command) => run(audit::run(command)),
        Command::Event(command) => run(event::run(command)),
        Command::Space(command) => run(space::run(command)),
        Command::Add(arguments) => run(async move { add::run(&arguments).await }),
        Command::Search(arguments) => run(async move { search::run(&arguments).await }),
        Command::Hook(arguments) => hook::run(&arguments),
        Command::Otlp(arguments) => run(otlp::run(arguments)),
        Command::Mcp(arguments) => run(mcp::run(arguments)),
        Command::Import(arguments) => run(async move { import::run(&arguments).await }),
        Command::Demo(arguments) => {
            let settings = arguments.is_auto().then(settings).transpose();
            settings.and_then(|settings| run(async move { Box::pin(demo::run(&arguments, settings.as_ref())).await }))
        }
        Command::Key(command) => run(api_key::run(command)),
        Command::Profile(command) => profile::run(command),
        Command::Completions(arguments) => {
            manual::completions(&arguments, Arguments::command());
            Ok(())
        }
        Command::Manual => manual::manual(help::with_examples(Arguments::command())),
        Command::ExitCodes => {
            output::print(&help::exit_codes());
            Ok(())
        }
        Command::Admin(command) => {
            settings().and_then(|settings| run(async move { admin::run(command, &settings).await }))
        }
    };
    let Err(failure) = result else { return ExitCode::SUCCESS };
    report(&failure, is_json);
    ExitCode::from(failure.kind().exit_code())
}

/// Prints a failure to standard error: for people, or as an object on one line.
fn report(failure: &Failure, is_json: bool) {
    if is_json {
        output::print_to_stderr(&output::json_line(&failure.described()));
    } else {
        output::print_error(failure.reason());
    }
}

/// Parses the arguments; also returns whether they contain `--json`. Prints help, version or a usage error and exits if they require that.
fn arguments() -> (Arguments, bool) {
    let mut program = help::laid_out(Arguments::command());
    let parsed = program.try_get_matches_from_mut(std::env::args_os());
    let parsed = parsed.and_then(|matches| {
        let arguments = Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut program))?;
        Ok((arguments, asks_for_json(&matches)))
    });
    parsed.unwrap_or_else(|error| {
        let is_json = std::env::args_os().any(|argument| argument == "--json");
        if error.use_stderr() && is_json {
            let text = error.to_string();
            report(&Failure::of(FailureKind::Usage, text.trim().trim_start_matches("error: ")), true);
            std::process::exit(error.exit_code());
        }
        error.exit()
    })
}

/// Whether the command has the option `--json`, and it is set.
fn asks_for_json(matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some((_, below)) => asks_for_json(below),
        None => matches!(matches.try_get_one::<bool>("json"), Ok(Some(true))),
    }
}

/// Timeout for blocked threads at the end of a command.
const THREADS_END_WITHIN: Duration = Duration::from_millis(500);

fn run(work: impl Future<Output = Done>) -> Done {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::refused(format!("the runtime cannot start: {error}")))?;
    // Boxed, so that the surrounding code is compiled once and not for each command.
    let work: Pin<Box<dyn Future<Output = Done>>> = Box::pin(work);
    let result = runtime.block_on(work);
    // A thread may wait for a name that cannot be resolved, or for a disk.
    runtime.shutdown_timeout(THREADS_END_WITHIN);
    result
}
