//! Folders of a test run in memory: a server waits for the disk at each commit, and a test has many commits.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::{env, fs, io};

/// The memory disk of Linux.
const DISK: &str = "/dev/shm";

/// A smaller one (containers often have 64 MB) would fill up in the middle of a run.
const KILOBYTES_MIN: u64 = 1024 * 1024;

/// Creates a private folder `attache-NAME-PROCESS`: in memory if there is room, and if programs may be run from there or `runs_programs` is
/// false; else in the folder for temporary files.
///
/// # Errors
/// When the folder cannot be created.
pub fn make_folder(name: &str, runs_programs: bool) -> io::Result<PathBuf> {
    let name = format!("attache-{name}-{}", process::id());
    let has_room = kilobytes_free(DISK).is_some_and(|free| free >= KILOBYTES_MIN);
    let in_memory = Path::new(DISK).join(&name);
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    if has_room && !(runs_programs && forbids_programs(DISK)) && builder.create(&in_memory).is_ok() {
        return Ok(in_memory);
    }
    let on_disk = env::temp_dir().join(name);
    builder.create(&on_disk)?;
    Ok(on_disk)
}

/// Whether programs may not be run from the disk that is mounted at `path`.
fn forbids_programs(path: &str) -> bool {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    // The last one covers those before it.
    let mut options = mounts.lines().rev().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        (words.next() == Some(path)).then(|| words.nth(1)).flatten()
    });
    options.next().is_none_or(|options| options.split(',').any(|option| option == "noexec"))
}

/// Room left on the disk that holds `path`.
fn kilobytes_free(path: &str) -> Option<u64> {
    let output = Command::new("df").args(["-Pk", path]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()
}
