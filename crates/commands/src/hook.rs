//! `attache hook`: records the work of a coding agent from the payloads of its hooks (`docs/hooks.md`).
//!
//! The agent waits for its hooks, so that a hook only reads its input, appends to the spool and starts the sender. [`intercepted`] handles
//! it before the command line is parsed. It prints nothing and returns 0, because agents read the output and the exit code of a hook as
//! decisions.

mod background;
pub mod folder;
mod keep;
mod levels;
mod log;
mod progress;
mod record;
mod sender;
mod spool;
mod status;

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::Args;

use crate::failure::Done;

pub use background::start as start_sender;
pub use folder::HookFolder;
pub use keep::{KeptEvents, keep};
pub use log::note;
pub use status::{ToolStatus, statuses};

/// Name of the profile if neither an option nor `ATTACHE_PROFILE` names one.
const PROFILE: &str = "default";

/// Options of `attache hook`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Coding agent: claude-code, codex, cursor, gemini-cli, github-copilot or opencode
    #[arg(required_unless_present_any = ["status", "send"])]
    tool: Option<OsString>,
    /// The payload, for agents that pass it as an argument [default: standard input]
    #[arg(value_name = "JSON")]
    payload: Option<OsString>,
    /// Name of the hook, for agents whose payloads do not contain it
    #[arg(long, value_name = "NAME")]
    hook: Option<OsString>,
    /// Show the spooled, sent and held events of each agent
    #[arg(long, conflicts_with_all = ["tool", "payload", "hook"])]
    status: bool,
    /// Print the status as JSON
    #[arg(long, requires = "status")]
    json: bool,
    /// Send spooled events until there are none for a while; hooks start it
    #[arg(long, hide = true)]
    send: bool,
    /// Profile that stores the server and its credentials
    #[arg(long, env = "ATTACHE_PROFILE", value_name = "NAME", default_value = PROFILE)]
    profile: OsString,
}

/// A call of a hook or of the sender, read without the parser of the command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Call {
    profile: Option<OsString>,
    hook: Option<OsString>,
    words: Vec<OsString>,
    is_send: bool,
}

/// Handles a call of a hook or of the sender; `None` for any other command line.
pub fn intercepted(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let call = Call::of(arguments)?;
    let profile = call.profile.or_else(|| std::env::var_os("ATTACHE_PROFILE").filter(|name| !name.is_empty()));
    let profile = profile.map_or_else(|| PROFILE.to_owned(), |name| name.to_string_lossy().into_owned());
    if call.is_send {
        sender::main(&profile);
        return Some(ExitCode::SUCCESS);
    }
    silently(|| record::record(&profile, call.words.first(), call.hook.as_ref(), call.words.get(1)));
    Some(ExitCode::SUCCESS)
}

/// Runs a hook without output or failure, even if it panics.
fn silently(hook: impl FnOnce()) {
    std::panic::set_hook(Box::new(|_| {}));
    // After a panic, only the record is lost.
    let _ = catch_unwind(AssertUnwindSafe(hook));
}

impl Call {
    /// Reads `attache hook …`; `None` if it is another command, or asks for the status or the help.
    fn of(arguments: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut arguments = arguments.into_iter().skip(1);
        if arguments.next()? != "hook" {
            return None;
        }
        let mut call = Self::default();
        while let Some(argument) = arguments.next() {
            let text = argument.to_string_lossy();
            match text.split_once('=').map_or((text.as_ref(), None), |(name, value)| (name, Some(value))) {
                ("--status" | "--help" | "-h", None) => return None,
                ("--send", None) => call.is_send = true,
                ("--profile", value) => call.profile = value.map(OsString::from).or_else(|| arguments.next()),
                ("--hook", value) => call.hook = value.map(OsString::from).or_else(|| arguments.next()),
                // An agent may add its own options.
                (name, _) if name.starts_with("--") => {}
                _ => call.words.push(argument),
            }
        }
        (call.is_send || !call.words.is_empty()).then_some(call)
    }
}

/// Shows the status, or runs the hook or sender for arguments that [`intercepted`] leaves to the parser.
pub fn run(arguments: &Arguments) -> Done {
    let profile = arguments.profile.to_string_lossy();
    if arguments.status {
        return status::show(&profile, arguments.json);
    }
    if arguments.send {
        sender::main(&profile);
    } else {
        silently(|| {
            record::record(&profile, arguments.tool.as_ref(), arguments.hook.as_ref(), arguments.payload.as_ref());
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(line: &str) -> Option<Call> {
        Call::of(line.split(' ').map(OsString::from))
    }

    #[test]
    fn calls_of_hooks_are_read_and_other_commands_are_not() {
        let read = |line| call(line).unwrap();
        assert_eq!(read("attache hook codex {}").words, ["codex", "{}"]);
        let read = read("attache hook --profile work cursor --hook=stop --unknown");
        let (profile, hook) = (read.profile.as_deref(), read.hook.as_deref());
        assert_eq!((profile, hook), (Some("work".as_ref()), Some("stop".as_ref())));
        assert_eq!(read.words, ["cursor"]);
        assert!(call("attache hook --send").unwrap().is_send);
        for other in
            ["attache", "attache hook", "attache hook --help", "attache hook --status --json", "attache status"]
        {
            assert_eq!(call(other), None, "{other}");
        }
    }
}
