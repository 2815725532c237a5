//! The one binary: server, operator's commands, offline verifier.

use std::process::ExitCode;

/// Requests make many small allocations on threads that pass work to each other, which this allocator is designed for.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    attache::cli::main()
}
