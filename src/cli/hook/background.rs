//! The sender as a process of its own, which outlives the agent that started it.

use std::fs;
use std::io;
use std::process::{Command, Stdio};

use super::folder::HookFolder;

/// Name of the lock that the running sender holds.
pub const LOCK: &str = "sender";

/// Starts the sender of a profile if none runs.
pub fn start(folder: &HookFolder, profile: &str) -> io::Result<()> {
    // The lock is released at once: of several senders that start together, one gets it.
    if folder.try_lock(LOCK)?.is_none() {
        return Ok(());
    }
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["hook", "--send", "--profile", profile]).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    Ok(())
}

/// Separates this process from the agent: its session, its terminal and its open files.
pub fn detach() {
    // Fails if the process leads a group already, as one does that a person started.
    let _ = rustix::process::setsid();
    let Ok(entries) = fs::read_dir("/dev/fd") else { return };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    // An agent waits for the end of files that its hooks hold open. The list contains its own descriptor, which is closed by then.
    for number in numbers.filter(|number| *number > 2).collect::<Vec<_>>() {
        let _ = nix::unistd::close(number);
    }
}
