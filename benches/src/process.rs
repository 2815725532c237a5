//! Child processes, and their CPU time and memory as `/proc` reports them.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use crate::Result;
use crate::outcome::Outcome;
use crate::plan::Plan;

/// `/proc` counts CPU time in hundredths of a second, independently of the kernel's own tick.
const TICKS_PER_SECOND: f64 = 100.0;

/// A server process that is killed when this value is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Its first line of output, which says that it serves, and for some servers at which address.
    pub ready: String,
    /// Time from start to that line.
    pub started_in: Duration,
}

/// CPU time and memory of a process since its start.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// User and system time in seconds, including children that have ended.
    pub cpu_seconds: f64,
    /// Current resident memory in bytes.
    pub resident_bytes: u64,
    /// Peak resident memory in bytes.
    pub peak_bytes: u64,
}

impl Usage {
    /// The usage with only the CPU time since `before`.
    pub fn since(self, before: Self) -> Self {
        Self { cpu_seconds: self.cpu_seconds - before.cpu_seconds, ..self }
    }
}

impl Server {
    /// Starts a server and waits for its first line. Its standard error is appended to `log`.
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
            // The receiver no longer exists after a timeout; the rest is read so that the server never blocks on its output.
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

    /// CPU time and memory of the server since its start.
    pub fn usage(&self) -> Result<Usage> {
        usage(self.child.id())
    }

    /// Kills the process, and waits until it has ended.
    pub fn end(&mut self) {
        // The process may have ended already; nothing else can fail for a child process.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing is measured any more, and the data folder is deleted: no graceful shutdown is needed.
        self.end();
    }
}

/// Sends a plan with a new generator process, and returns its outcome.
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

/// The same with standard input.
pub fn measure_with(arguments: &[&str], input: &[u8]) -> Result<Outcome> {
    let mut child = myself(arguments)?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().ok_or("no standard input")?.write_all(input)?;
    outcome(child)
}

/// A command that starts this program with other arguments.
pub fn myself(arguments: &[&str]) -> Result<Command> {
    let mut command = roomy(&env::current_exe()?);
    command.args(arguments);
    Ok(command)
}

/// A program with the hard limit of open files as its limit: thousands of connections need them, and the usual soft
/// limit is 1024. The shell becomes the program, so the process id stays the same.
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

/// CPU time and memory of the process with this id since its start.
pub fn usage(process: u32) -> Result<Usage> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name, in brackets, may itself contain brackets and spaces. User and system time are the 12th and 13th field after it,
    // those of ended children the 14th and 15th.
    let after_name = stat.rsplit_once(')').ok_or("/proc/…/stat has no name")?.1;
    let ticks: f64 = after_name.split_whitespace().skip(11).take(4).filter_map(|field| field.parse::<f64>().ok()).sum();
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok())
            .map_or(0, |kilobytes| kilobytes * 1024)
    };
    let (resident_bytes, peak_bytes) = (bytes("VmRSS:"), bytes("VmHWM:"));
    Ok(Usage { cpu_seconds: ticks / TICKS_PER_SECOND, resident_bytes, peak_bytes })
}

/// Prints a line of progress on standard error.
pub fn say(words: &str) {
    // A closed terminal is no reason to stop measuring.
    let _ = writeln!(std::io::stderr(), "{words}");
}
