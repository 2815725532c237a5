//! `attache event`: sends events on this computer's chain, and shows new events.

mod agent_kind;
mod chain;
pub mod draft;
mod pending;
pub mod report;
mod send;
pub mod sender;
mod tail;

use clap::Subcommand;

pub use chain::{LocalChain, pending_event};

use crate::failure::Done;

/// Subcommands of `attache event`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send events from arguments, a file or standard input, each exactly once
    ///
    /// Each line is a JSON object with at least `event_type` and `payload`; it may contain `event_id`, `ts_edge_ms`, `lane`, `consent_level`,
    /// `redacted`, `project_id` and `session_uuid`. The command adds the rest of the envelope, the chain and its hashes.
    ///
    /// A file is checked completely before the first event is sent: its lines, their types, their sizes. If the server is unavailable or the command
    /// is killed, run it again: it resumes after the last completed line, even if later lines were changed or added.
    ///
    /// Lines of standard input are sent as they are read, and only the current one is stored. To make resending them safe, give each an
    /// `event_id`: events that the log already has are then recognised. Likewise `--type` sends a new event every time unless `--event-id` is given.
    ///
    /// The server may hold an event, for example one with content that the declared level does not allow. The command prints the reason; a held event
    /// is not part of the chain, and `attache activity` lists it separately. An `event_id` that another event in the log has is an error (exit code 1).
    Send(send::Arguments),
    /// Show or drop the event on this computer's chain that has no response yet
    ///
    /// An event is stored until the server has accepted, held or refused it, and no other event is sent before it. If the server refuses it
    /// repeatedly, for example because another program sends on the same chain, it blocks the chain: `--drop` gives it up.
    Pending(pending::Arguments),
    /// Show new events, the newest last, until Ctrl-C
    Tail(tail::Arguments),
}

/// Runs the subcommand.
pub async fn run(command: Command) -> Done {
    match command {
        Command::Send(arguments) => send::run(&arguments).await,
        Command::Pending(arguments) => pending::run(&arguments),
        Command::Tail(arguments) => tail::run(&arguments).await,
    }
}
