//! One call of a hook: from the payload to the spool.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;

use hooks::{PAYLOAD_BYTES_MAX, Payload, Tool};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::folder::HookFolder;
use super::keep::keep;
use super::log;

/// Maximum size of input that is read. If an agent writes more, the pipe is closed.
const INPUT_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Maximum pause of the input. An agent without a payload may leave standard input open.
const PAUSE_MAX: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Spools the events of a payload and starts the sender. Failures are noted in the log.
pub fn record(profile: &str, tool: Option<&OsString>, hook: Option<&OsString>, payload: Option<&OsString>) {
    // The input is read in any case: an agent may fail if the pipe is closed early.
    let input = match payload {
        Some(payload) => payload.as_bytes().to_vec(),
        None => input(),
    };
    let Some(folder) = HookFolder::of(profile) else { return };
    let name = tool.map(|tool| tool.to_string_lossy()).unwrap_or_default();
    let result = match name.parse::<Tool>() {
        Ok(tool) => spool(&folder, profile, tool, hook.and_then(|hook| hook.to_str()), &input),
        Err(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is no coding agent"))),
    };
    if let Err(error) = result {
        log::note(&folder, &format!("the hook was not recorded: {error}"));
    }
}

fn spool(folder: &HookFolder, profile: &str, tool: Tool, hook: Option<&str>, input: &[u8]) -> io::Result<()> {
    folder.make()?;
    let payload = Payload::read(input);
    if payload.members.is_empty() {
        log::note(folder, &format!("{tool}: a payload of {} bytes is no JSON object", input.len()));
        return Ok(());
    }
    let events = hooks::events(tool, hook, &payload, &folder.salt()?);
    keep(folder, profile, events.into_iter().map(|event| (tool, event)))?;
    Ok(())
}

/// Reads standard input to its end. Bytes beyond the maximum payload are dropped.
fn input() -> Vec<u8> {
    let mut stdin = io::stdin().lock();
    let (mut input, mut piece, mut total) = (Vec::new(), vec![0; 64 * 1024], 0);
    if stdin.is_terminal() {
        return input;
    }
    while total < INPUT_BYTES_MAX {
        if poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&PAUSE_MAX)).is_ok_and(|ready| ready == 0) {
            break;
        }
        match stdin.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => {
                total += read as u64;
                let space = (PAYLOAD_BYTES_MAX + 1).saturating_sub(input.len());
                input.extend_from_slice(piece.get(..read.min(space)).unwrap_or_default());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    input
}
