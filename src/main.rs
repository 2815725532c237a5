//! The one binary: server, operator's commands, offline verifier.

use std::process::ExitCode;

/// Serving an event allocates often and little, on threads that hand work to each other: what this allocator is made for.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    attache::cli::main()
}
