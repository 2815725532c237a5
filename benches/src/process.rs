//! Child processes of a run.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use crate::options::Result;
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::usage::{Usage, usage};

/// A server that was started here, and ends with this value.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Its first line, which says that it serves, and perhaps where.
    pub ready: String,
    /// From start to that line.
    pub started_in: Duration,
}

impl Server {
    /// Starts a server and waits for its first line. Its words on standard error go to `log`.
    pub fn start(command: &mut Command, log: &Path, patience: Duration) -> Result<Self> {
        let started = Instant::now();
        let words = fs::File::options().create(true).append(true).open(log)?;
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(words).spawn()?;
        let output = child.stdout.take().ok_or("no standard output")?;
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = String::new();
            let read = output.read_line(&mut line);
            // The receiver is gone when the wait was given up; the rest is read so that the server never blocks on it.
            let _ = sender.send(read.map(|_| line));
            let _ = std::io::copy(&mut output, &mut std::io::sink());
        });
        let mut server = Self { child, ready: String::new(), started_in: Duration::ZERO };
        let line = receiver.recv_timeout(patience).map_err(|_| format!("{command:?} does not get ready"))??;
        server.started_in = started.elapsed();
        if line.is_empty() {
            let status = server.child.wait()?;
            return Err(format!("{command:?} ended, {status}:\n{}", fs::read_to_string(log)?).into());
        }
        line.trim_end().clone_into(&mut server.ready);
        Ok(server)
    }

    /// What it has cost so far.
    pub fn usage(&self) -> Result<Usage> {
        usage(self.child.id())
    }

    /// Kills it, and waits until it is gone.
    pub fn end(&mut self) {
        // It may be gone already; nothing else can go wrong with a child of ours.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing is measured any more, and its folder is thrown away: no need to ask politely.
        self.end();
    }
}

/// Sends a plan with a generator of its own, and returns what came back.
pub fn send(plan: &Plan, address: std::net::SocketAddr) -> Result<Outcome> {
    let mut command = myself(&["load", &address.to_string()])?;
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let input = child.stdin.take().ok_or("no standard input")?;
    plan.write(std::io::BufWriter::new(input))?;
    outcome(child)
}

/// Runs a part of this program that prints an outcome.
pub fn measure(arguments: &[&str]) -> Result<Outcome> {
    outcome(myself(arguments)?.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?)
}

/// The same with something to read.
pub fn measure_with(arguments: &[&str], input: &[u8]) -> Result<Outcome> {
    let mut child = myself(arguments)?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().ok_or("no standard input")?.write_all(input)?;
    outcome(child)
}

/// This program, with another command.
pub fn myself(arguments: &[&str]) -> Result<Command> {
    let mut command = roomy(&env::current_exe()?);
    command.args(arguments);
    Ok(command)
}

/// A program that may have as many files open as the system lets it: thousands of connections need them, and the usual
/// limit is a thousand. The shell becomes the program, so the process stays the same.
pub fn roomy(program: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", r#"ulimit -n "$(ulimit -Hn)"; exec "$0" "$@""#]).arg(program);
    command
}

fn outcome(mut child: Child) -> Result<Outcome> {
    let mut text = String::new();
    child.stdout.take().ok_or("no standard output")?.read_to_string(&mut text)?;
    let status = child.wait()?;
    if !status.success() {
        return Err(format!("a part of the harness failed, {status}").into());
    }
    Ok(serde_json::from_str(&text)?)
}

/// Says something to the person who waits.
pub fn say(words: &str) {
    // A closed terminal is no reason to stop measuring.
    let _ = writeln!(std::io::stderr(), "{words}");
}
