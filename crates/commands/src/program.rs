//! What both programs do around a command: they read the arguments, and print how it ended.

use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgMatches, Parser};

use crate::failure::{Done, Failure, FailureKind};
use crate::help::{self, Additions};
use crate::output;

/// Timeout for blocked threads at the end of a command.
const THREADS_END_WITHIN: Duration = Duration::from_millis(500);

/// The parsed command line.
#[derive(Debug)]
pub struct Invocation<A> {
    /// The arguments.
    pub arguments: A,
    /// Whether they contain `--json`.
    pub is_json: bool,
}

/// Parses the arguments of this process. Prints help, version or a usage error and exits if they require that.
pub fn arguments<A: Parser>(additions: &Additions) -> Invocation<A> {
    let mut program = A::command();
    let mut parsed = program.try_get_matches_from_mut(std::env::args_os());
    // The layout of the help takes longer than the rest of the parser, and most commands print none.
    if parsed.as_ref().is_err_and(|error| is_help(error.kind())) {
        program = help::laid_out(A::command(), additions);
        parsed = program.try_get_matches_from_mut(std::env::args_os());
    }
    let parsed = parsed.and_then(|matches| {
        let arguments = A::from_arg_matches(&matches).map_err(|error| error.format(&mut program))?;
        Ok(Invocation { arguments, is_json: asks_for_json(&matches) })
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

fn is_help(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand)
}

/// Whether the command has the option `--json`, and it is set.
fn asks_for_json(matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some((_, below)) => asks_for_json(below),
        None => matches!(matches.try_get_one::<bool>("json"), Ok(Some(true))),
    }
}

/// Runs `work` in a new runtime.
pub fn run(work: impl Future<Output = Done>) -> Done {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::refused(format!("the runtime cannot start: {error}")))?;
    // Boxed, so that the surrounding code is compiled once and not for each command.
    let work: Pin<Box<dyn Future<Output = Done>>> = Box::pin(work);
    let result = runtime.block_on(work);
    // A thread may wait for a name that cannot be resolved, or for a disk.
    runtime.shutdown_timeout(THREADS_END_WITHIN);
    result
}

/// Prints a failure, and returns the exit code.
pub fn end(result: Done, is_json: bool) -> ExitCode {
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
