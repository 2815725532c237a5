//! The log of hooks, which have no other output: `hook.log` in the folder of the spool. It contains no content of payloads.

use std::io::{self, Write};

use domain::{Clock, clock};

use super::folder::HookFolder;

/// Maximum size of the log; a larger log is truncated to zero.
const LOG_BYTES_MAX: u64 = 256 * 1024;

/// Appends a line. Write errors are ignored, so that they do not disturb the agent.
pub fn note(folder: &HookFolder, line: &str) {
    let _ = append(folder, line);
}

fn append(folder: &HookFolder, line: &str) -> io::Result<()> {
    folder.make()?;
    let mut file = folder.append("hook.log")?;
    if file.metadata()?.len() > LOG_BYTES_MAX {
        file.set_len(0)?;
    }
    let line = line.replace('\n', " ");
    writeln!(file, "{} {line}", clock::date_time(Clock::system().now()))
}
