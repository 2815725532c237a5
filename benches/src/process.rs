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

/// A started server, killed on drop.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Its first line of output, which may contain the address.
    pub ready: String,
    /// Time from the start to that line.
    pub started_in: Duration,
}

impl Server {
    /// Starts a server and waits for its first line. Standard error is written to `log`.
    pub fn start(command: &mut Command, log: &Path, time_limit: Duration) -> Result<Self> {
        let started = Instant::now();
        let words = fs::File::options().create(true).append(true).open(log)?;
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(words).spawn()?;
        let output = child.stdout.take().ok_or("no standard output")?;
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = String::new();
            let read = output.read_line(&mut line);
            // The receiver is dropped after a timeout. The remaining output is read so that the server does not block.
            let _ = sender.send(read.map(|_| line));
            let _ = std::io::copy(&mut output, &mut std::io::sink());
        });
        let mut server = Self { child, ready: String::new(), started_in: Duration::ZERO };
        let line = receiver.recv_timeout(time_limit).map_err(|_| format!("{command:?} does not get ready"))??;
        server.started_in = started.elapsed();
        if line.is_empty() {
            let status = server.child.wait()?;
            return Err(format!("{command:?} ended, {status}:\n{}", fs::read_to_string(log)?).into());
        }
        line.trim_end().clone_into(&mut server.ready);
        Ok(server)
    }

    /// Resource usage of the server so far.
    pub fn usage(&self) -> Result<Usage> {
        usage(self.child.id())
    }

    /// Kills the server and waits until it has ended.
    pub fn end(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The measurement is complete and the folder is removed, so no graceful shutdown is needed.
        self.end();
    }
}

/// Sends a plan with a new generator process, and returns the outcome.
pub fn send(plan: &Plan, address: std::net::SocketAddr) -> Result<Outcome> {
    let mut command = myself(&["load", &address.to_string()])?;
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let input = child.stdin.take().ok_or("no standard input")?;
    plan.write(std::io::BufWriter::new(input))?;
    outcome(child)
}

/// Runs a subcommand that prints an outcome.
pub fn measure(arguments: &[&str]) -> Result<Outcome> {
    outcome(myself(arguments)?.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?)
}

/// Runs a subcommand with standard input.
pub fn measure_with(arguments: &[&str], input: &[u8]) -> Result<Outcome> {
    let mut child = myself(arguments)?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().ok_or("no standard input")?.write_all(input)?;
    outcome(child)
}

/// This program with other arguments.
pub fn myself(arguments: &[&str]) -> Result<Command> {
    let mut command = roomy(&env::current_exe()?);
    command.args(arguments);
    Ok(command)
}

/// Runs a program with the maximum number of open files, because the usual limit of a thousand is too low for thousands
/// of connections. The shell is replaced by the program, so the process id stays the same.
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

/// Prints a message on standard error.
pub fn say(words: &str) {
    // A closed terminal does not end the measurement.
    let _ = writeln!(std::io::stderr(), "{words}");
}
