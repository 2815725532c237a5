//! The real program as a child process. It never outlives its test, and everything it writes is kept.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::watch;

/// How long a test waits for something that must happen.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A folder with the data of one server, and the configuration with which programs are run on it.
pub struct Home {
    pub dir: TempDir,
    environment: BTreeMap<String, String>,
}

impl Home {
    /// SQLite, free ports, quick checkpoints, no limits per address and no budgets: the tests use one address, and their computers are
    /// attached to no account.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let home = Self { dir, environment: BTreeMap::new() };
        home.set("data.dir", data.to_str().unwrap())
            .set("http.bind", "127.0.0.1:0")
            .set("admin.bind", "127.0.0.1:0")
            .set("log.checkpoint_every", "50ms")
            .set("limits.registrations_per_minute", "0")
            .set("events.unattached.bytes_per_day", "0")
            .set("events.unattached.events_per_day", "0")
    }

    /// Sets a knob by its path in the configuration.
    pub fn set(mut self, knob: &str, value: &str) -> Self {
        self.environment.insert(format!("ATTACHE_{}", knob.to_uppercase().replace('.', "__")), value.to_owned());
        self
    }

    /// Sets a variable of the environment that is no knob.
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Has this library loaded into every program before its own libraries.
    pub fn preloading(self, library: &Path) -> Self {
        self.environment("LD_PRELOAD", library.to_str().unwrap())
    }

    /// Where the embedded databases are.
    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// The program with this configuration and nothing else of the test's environment; a person's profiles are in this folder too.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
        command.args(arguments).current_dir(self.dir.path()).env_clear().envs(&self.environment).stdin(Stdio::null());
        command.env("HOME", self.dir.path());
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, arguments: &[&str]) -> Done {
        Done::of(arguments, self.command(arguments).output().unwrap())
    }

    /// Runs a command to its end, with something to read on its standard input.
    pub fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Done {
        let mut command = self.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A command that does not read to the end is no reason to fail here.
        let _ = child.stdin.take().unwrap().write_all(input);
        Done::of(arguments, child.wait_with_output().unwrap())
    }

    /// Starts a server and waits until it says that it is ready.
    pub async fn serve(&self) -> Server {
        self.serve_failing("").await
    }

    /// The same, with places where it panics or dies (feature `failpoints`), such as `forward.after=3*off->1*return`.
    pub async fn serve_failing(&self, failpoints: &str) -> Server {
        let mut process = self.spawn(failpoints);
        let line = process.ready_line().await;
        let addresses = line.strip_prefix("attache is ready at ").and_then(|rest| rest.strip_suffix(')'));
        let (url, operator) = addresses.and_then(|both| both.split_once(" (operator: ")).unwrap();
        Server { url: url.to_owned(), operator: operator.to_owned(), process }
    }

    /// Starts a server and waits for nothing.
    pub fn spawn(&self, failpoints: &str) -> Process {
        let mut command = self.command(&["serve"]);
        command.env("FAILPOINTS", failpoints);
        Process::of(command)
    }

    /// Starts a command and waits for nothing.
    pub fn start(&self, arguments: &[&str]) -> Process {
        Process::of(self.command(arguments))
    }

    /// The same, with something to read on its standard input.
    pub fn start_with_input(&self, arguments: &[&str], input: &[u8]) -> Process {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(input).and_then(|()| file.rewind()).unwrap();
        let mut command = self.command(arguments);
        command.stdin(file);
        Process::of(command)
    }

    /// Starts a server that tells every step of its start, so that one can be chosen to kill it at; waits for nothing.
    pub fn spawn_loud(&self) -> Process {
        let mut command = self.command(&["serve"]);
        command.env("ATTACHE_TELEMETRY__LOG", "trace");
        Process::of(command)
    }
}

/// A command that has ended.
#[derive(Debug)]
pub struct Done {
    arguments: Vec<String>,
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Done {
    fn of(arguments: &[&str], output: std::process::Output) -> Self {
        Self {
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// What a command that did what it was asked said, without the last line feed.
    #[track_caller]
    pub fn said(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self:?}");
        assert_eq!(self.stderr, "", "{:?} complains although it is content", self.arguments);
        self.stdout.trim_end()
    }

    /// The same, read as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(self.said()).unwrap_or_else(|error| panic!("not JSON ({error}): {self:?}"))
    }

    /// The complaint of a command that ended with this code, which says all of `reasons`.
    #[track_caller]
    pub fn refused(&self, code: i32, reasons: &[&str]) -> &str {
        assert_eq!(self.code, Some(code), "{self:?}");
        for reason in reasons {
            assert!(self.stderr.contains(reason), "{reason:?} is not said: {self:?}");
        }
        &self.stderr
    }
}

/// A server that is ready.
pub struct Server {
    pub url: String,
    pub operator: String,
    pub process: Process,
}

/// A running program; killed when dropped.
pub struct Process {
    child: Child,
    pub stdout: Lines,
    pub stderr: Lines,
}

impl Process {
    fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Self { child, stdout: Lines::of(stdout), stderr: Lines::of(stderr) }
    }

    /// Waits until it has logged so many lines, or is ready, or has ended.
    pub async fn logged_or_ready(&self, lines: usize) {
        tokio::select! {
            _ = self.stderr.reach(lines) => {}
            _ = self.stdout.reach(1) => {}
        }
    }

    /// The first line of standard output.
    pub async fn ready_line(&mut self) -> String {
        if !self.stdout.reach(1).await {
            let status = self.exit().await;
            panic!("it ended before it was ready: {status}\n{}", self.stderr.text());
        }
        self.stdout.text().lines().next().unwrap().to_owned()
    }

    /// `kill -9`, whatever it does, and waits until it is gone.
    pub fn kill(&mut self) {
        // Fails only if it has ended already, which is as good.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Sends a signal by its name, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success(), "kill -s {name}");
    }

    /// Waits until it has ended by itself and all that it wrote was read.
    pub async fn exit(&mut self) -> ExitStatus {
        let ended = self.stdout.end().await && self.stderr.end().await;
        assert!(ended, "it does not end; it said:\n{}", self.stderr.text());
        self.child.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            let text = self.stderr.text();
            let lines: Vec<&str> = text.lines().collect();
            eprintln!("--- the last lines of the server:\n{}", lines[lines.len().saturating_sub(40)..].join("\n"));
        }
    }
}

/// What a program writes, line by line, read by a thread so that its pipe never fills.
pub struct Lines {
    text: Arc<Mutex<String>>,
    progress: watch::Receiver<Progress>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    lines: usize,
    ended: bool,
}

impl Lines {
    fn of(pipe: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let (told, progress) = watch::channel(Progress::default());
        let written = Arc::clone(&text);
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                let mut text = written.lock().unwrap_or_else(PoisonError::into_inner);
                text.push_str(&line);
                text.push('\n');
                told.send_modify(|progress| progress.lines += 1);
            }
            told.send_modify(|progress| progress.ended = true);
        });
        Self { text, progress }
    }

    /// Everything so far.
    pub fn text(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for this many lines; `false` when the program ended before, or took too long.
    pub async fn reach(&self, lines: usize) -> bool {
        self.wait(|progress| progress.ended || progress.lines >= lines).await && self.progress.borrow().lines >= lines
    }

    async fn end(&self) -> bool {
        self.wait(|progress| progress.ended).await
    }

    async fn wait(&self, mut there: impl FnMut(&Progress) -> bool) -> bool {
        let mut progress = self.progress.clone();
        tokio::time::timeout(PATIENCE, progress.wait_for(|progress| there(progress))).await.is_ok()
    }
}
