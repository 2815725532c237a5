//! `attache-client`: the client's commands without the server (`docs/decisions/0019-one-binary.md`).

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use commands::client::Command;
use commands::help::Additions;
use commands::program::{self, Invocation};

/// Accounts, consent and provable events for agents: the client.
#[derive(Debug, Parser)]
#[command(name = "attache-client", version, max_term_width = 100, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    if let Some(code) = commands::hook::intercepted(std::env::args_os()) {
        return code;
    }
    let Invocation { arguments: Arguments { command }, is_json } = program::arguments(&Additions::default());
    program::end(command.run(Arguments::command, &Additions::default()), is_json)
}
