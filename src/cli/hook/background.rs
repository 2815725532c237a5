//! The sender as a separate process, which outlives the agent that started it.

use std::io;
use std::process::{Child, Command, Stdio};

use super::folder::HookFolder;

/// Name of the lock that the running sender holds.
pub const LOCK: &str = "sender";

/// Runs the program without the open files of the agent, which waits for the end of files that its hooks hold open. The shell closes them: the
/// functions for it are unsafe in Rust. It knows descriptors of one digit.
const CLOSING: &str = r#"exec "$0" "$@" 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-"#;

/// Starts the sender of a profile if none runs. A process that does not end soon has to wait for the child, which is a zombie otherwise.
pub fn start(folder: &HookFolder, profile: &str) -> io::Result<Option<Child>> {
    // The lock is released at once: of several senders that start together, one gets it.
    if folder.try_lock(LOCK)?.is_none() {
        return Ok(None);
    }
    let mut command = Command::new("/bin/sh");
    command.args(["-c", CLOSING]).arg(std::env::current_exe()?).args(["hook", "--send", "--profile", profile]);
    command.current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(Some)
}

/// Separates this process from the session of the agent, and so from its terminal and its signals.
pub fn detach() {
    // Fails if the process leads a group already, as one does that a person started.
    let _ = rustix::process::setsid();
}
