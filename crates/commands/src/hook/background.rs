//! The sender as a separate process, which outlives the agent that started it.

use std::io;
use std::process::{Child, Command, Stdio};

use super::folder::HookFolder;

/// Name of the lock that the running sender holds.
pub const LOCK: &str = "sender";

/// Runs the program without the open files of the agent, which waits for the end of files that its hooks hold open. The shell closes them:
/// the functions for it are unsafe in Rust. It knows descriptors of one digit.
const CLOSING: &str = r#"exec "$0" "$@" 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-"#;

/// Starts the sender of a profile if none runs. A long-running process must wait for the child, which otherwise becomes a zombie.
pub fn start(folder: &HookFolder, profile: &str) -> io::Result<Option<Child>> {
    // The lock is released immediately: of several senders that start at the same time, one gets it.
    if folder.try_lock(LOCK)?.is_none() {
        return Ok(None);
    }
    let mut command = Command::new("/bin/sh");
    command.args(["-c", CLOSING]).arg(std::env::current_exe()?).args(["hook", "--send", "--profile", profile]);
    command.current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(Some)
}

/// Separates this process from the agent's session, terminal and signals.
pub fn detach() {
    // Fails if the process already leads a group, for example if a person started it.
    let _ = rustix::process::setsid();
}
