//! `attache event`: sends events on this computer's chain, and follows those that come in.

mod chain;
pub mod draft;
mod send;
pub mod sending;
mod tail;
pub mod told;

use clap::Subcommand;

use super::Done;

/// What to do with them.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send events from arguments, a file or standard input, each exactly once however often this is interrupted
    ///
    /// A line is a JSON object with at least `event_type` and `payload`; it may have `event_id`, `ts_edge_ms`, `lane`, `consent_level`,
    /// `redacted`, `project_id` and `session_uuid`. The rest of the envelope, the chain and its hashes are completed here. A file is checked
    /// whole before anything is sent. When the server is away, or this is killed, the same command goes on where it stopped.
    Send(send::Arguments),
    /// Show what comes in, the newest last, until Ctrl-C
    Tail(tail::Arguments),
}

/// Does it.
pub async fn run(command: Command) -> Done {
    match command {
        Command::Send(arguments) => send::run(&arguments).await,
        Command::Tail(arguments) => tail::run(&arguments).await,
    }
}
