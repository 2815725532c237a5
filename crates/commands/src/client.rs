//! The commands of the client: one file for each.

use clap::Subcommand;
use extract::worker::EXTRACT_WORKER;

use crate::failure::{Done, Failure};
use crate::help::{self, Additions};
use crate::program::run;
use crate::{
    account, activity, add, agent, api_key, attach, audit, connect, connection, consent, costs, event, hook, import,
    login, machine, manual, mcp, open, otlp, output, pause, profile, receipt, search, session, space, status, usage,
    verify, whoami,
};

/// A command of the client.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Extract the text of a page or PDF from standard input (started by this program)
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
    /// List the exit codes, and the members of failures with --json
    #[command(hide = true)]
    ExitCodes,
}

impl Command {
    /// Runs the command. `program` defines all commands of this program; the help of some is in `additions`.
    pub fn run(self, program: impl FnOnce() -> clap::Command, additions: &Additions) -> Done {
        match self {
            // Runs with an empty environment and reads no configuration.
            Self::ExtractWorker => extract::worker::main(std::io::stdin(), std::io::stdout()).map_err(Failure::caused),
            Self::Login(arguments) => run(login::login(arguments)),
            Self::Whoami(remote) => run(async move { whoami::whoami(&remote).await }),
            Self::Status(arguments) => run(async move { status::status(&arguments).await }),
            Self::Open(arguments) => open::open(&arguments),
            Self::Connect(arguments) => run(connect::connect(arguments)),
            Self::Disconnect(arguments) => run(connect::disconnect(arguments)),
            Self::Attach(arguments) => run(attach::attach(arguments)),
            Self::Machine(command) => run(machine::run(command)),
            Self::Agent(command) => run(agent::run(command)),
            Self::Account(remote) => run(async move { account::account(&remote).await }),
            Self::Usage(arguments) => run(async move { usage::usage(&arguments).await }),
            Self::Costs(arguments) => run(costs::costs(arguments)),
            Self::Consent(command) => run(consent::run(command)),
            Self::Pause(arguments) => run(pause::pause(arguments)),
            Self::Activity(arguments) => run(activity::activity(arguments)),
            Self::Session(command) => run(session::run(command)),
            Self::Verify(arguments) => run(async move { verify::verify(&arguments).await }),
            Self::Receipt(arguments) => run(async move { receipt::receipt(&arguments).await }),
            Self::Audit(command) => run(audit::run(command)),
            Self::Event(command) => run(event::run(command)),
            Self::Space(command) => run(space::run(command)),
            Self::Add(arguments) => run(async move { add::run(&arguments).await }),
            Self::Search(arguments) => run(async move { search::run(&arguments).await }),
            Self::Hook(arguments) => hook::run(&arguments),
            Self::Otlp(arguments) => run(otlp::run(arguments)),
            Self::Mcp(arguments) => run(mcp::run(arguments)),
            Self::Import(arguments) => run(async move { import::run(&arguments).await }),
            Self::Key(command) => run(api_key::run(command)),
            Self::Profile(command) => profile::run(command),
            Self::Completions(arguments) => {
                manual::completions(&arguments, program());
                Ok(())
            }
            Self::Manual => manual::manual(help::with_examples(program(), additions)),
            Self::ExitCodes => {
                output::print(&help::exit_codes());
                Ok(())
            }
        }
    }
}
