//! The process that briefly outlives a test run, to end the processes of a folder (a cluster, browsers) and to remove it.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs, io, process, thread};

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Programs that are ending may still write files there.
const REMOVE_TRIES: usize = 50;

/// Starts the watchdog: this program with the arguments `watch`, the numbers of `run` and of this process, and the folder. It has its own
/// process group, so that an interrupt meant for the test run does not reach it, and no standard streams, so that the runner does not
/// wait for them to close.
///
/// It waits for the end of `run` and of this process: a cluster must not be removed while it is being created.
///
/// # Errors
/// When the program cannot be started.
pub fn leave_behind(run: u32, folder: &Path) -> io::Result<()> {
    Command::new(env::current_exe()?)
        .args(["watch", &run.to_string(), &process::id().to_string()])
        .arg(folder)
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map(drop)
}

/// Waits for the end of both processes, then calls `remove` until `folder` is gone.
///
/// # Errors
/// The last one of `remove`.
pub fn watch(run: &str, maker: &str, folder: &Path, remove: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    for process in [run, maker] {
        let born = birth(process);
        while born.is_some() && birth(process) == born {
            thread::sleep(LOOK_EVERY);
        }
    }
    let mut tries = 0;
    loop {
        tries += 1;
        match remove(folder) {
            Err(_) if !folder.exists() => return Ok(()),
            Err(_) if tries < REMOVE_TRIES => thread::sleep(LOOK_EVERY),
            done => return done,
        }
    }
}

/// Start time of a process; `None` if it has ended. With the id it identifies a process, since ids are reused.
fn birth(process: &str) -> Option<String> {
    if !Path::new("/proc/self/stat").exists() {
        let output = Command::new("ps").args(["-o", "lstart=", "-p", process]).output().ok()?;
        return String::from_utf8(output.stdout).ok().filter(|started| !started.trim().is_empty());
    }
    // The name, in brackets, may itself hold brackets and spaces. After it: state, …, start time as the 20th field.
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let dead = matches!(fields.next()?, "Z" | "X");
    fields.nth(18).filter(|_| !dead).map(str::to_owned)
}
