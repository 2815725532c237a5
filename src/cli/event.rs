//! `attache event`: sends events on this computer's chain, and follows those that come in.

mod chain;
pub mod draft;
mod pending;
pub mod report;
mod send;
pub mod sending;
mod tail;

use clap::Subcommand;

use super::Done;

/// What to do with them.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send events from arguments, a file or standard input, none twice however often this is interrupted
    ///
    /// A line is a JSON object with at least `event_type` and `payload`; it may have `event_id`, `ts_edge_ms`, `lane`, `consent_level`,
    /// `redacted`, `project_id` and `session_uuid`. The rest of the envelope, the chain and its hashes are completed here.
    ///
    /// A file is checked whole before anything is sent: its lines, their types, their sizes. When the server is away, or this is killed, the
    /// same command goes on behind the lines that are done, also when lines after them were changed or added.
    ///
    /// Lines of standard input are sent as they come, and only the one in flight is kept. To send such lines again safely, give each an
    /// `event_id`: what the log has already is then known. So it is with `--type`: without `--event-id` every command is an event of its own.
    ///
    /// The server may hold an event, for example one with content that the declared level does not allow. It is said with its reason; it is
    /// not in the chain, and `attache activity` lists it apart. An id that another event has in the log fails, and ends with 1.
    Send(send::Arguments),
    /// Show the event that was begun on this computer's chain and not settled, or give it up
    ///
    /// An event is kept to the byte until the server has said what became of it, and nothing goes before it. One that is refused again and
    /// again, since something else sends on the same chain for example, would be in the way: `--drop` gives it up.
    Pending(pending::Arguments),
    /// Show what comes in, the newest last, until Ctrl-C
    Tail(tail::Arguments),
}

/// A kind of agent names a file too.
fn agent_id(text: &str) -> Result<String, &'static str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let good = (1..=64).contains(&text.len()) && text.bytes().all(plain);
    if good { Ok(text.to_owned()) } else { Err("expected letters, digits, - and _") }
}

/// Does it.
pub async fn run(command: Command) -> Done {
    match command {
        Command::Send(arguments) => send::run(&arguments).await,
        Command::Pending(arguments) => pending::run(&arguments),
        Command::Tail(arguments) => tail::run(&arguments).await,
    }
}
