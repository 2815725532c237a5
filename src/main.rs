//! The one binary: server, operator's commands, offline verifier.

use std::process::ExitCode;

fn main() -> ExitCode {
    attache::cli::main()
}
