//! The program `attache` as a child process, which ends with its test at the latest; its output is stored.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use reqwest::{Method, RequestBuilder};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::watch;

use crate::TIME_LIMIT;

/// The data folder of one server, and the environment with which the program runs on it.
pub struct Home {
    /// The folder of all files, which is also the home folder of the person.
    pub dir: TempDir,
    environment: BTreeMap<String, String>,
    program: OsString,
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Home {
    /// SQLite, free ports, a checkpoint each 50 ms, no limits per address and no quotas of unattached computers: the tests use one
    /// address, and their computers belong to no account.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let home = Self { dir, environment: BTreeMap::new(), program: program() };
        home.set("data.dir", data.to_str().unwrap())
            .set("http.bind", "127.0.0.1:0")
            .set("admin.bind", "127.0.0.1:0")
            .set("log.checkpoint_every", "50ms")
            .set("limits.registrations_per_minute", "0")
            .set("events.unattached.bytes_per_day", "0")
            .set("events.unattached.events_per_day", "0")
    }

    /// Sets a configuration key by its path, such as `http.bind`.
    #[must_use]
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.environment.insert(format!("ATTACHE_{}", key.to_uppercase().replace('.', "__")), value.to_owned());
        self
    }

    /// Sets any environment variable.
    #[must_use]
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Loads this library into each program before its own libraries (`LD_PRELOAD`).
    #[must_use]
    pub fn preloading(self, library: &Path) -> Self {
        self.environment("LD_PRELOAD", library.to_str().unwrap())
    }

    /// Runs another program from now on, such as one of an older version.
    pub fn run_program(&mut self, program: &Path) {
        self.program = program.into();
    }

    /// The folder with the embedded databases.
    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// The program with only this environment, without the test's.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(self.dir.path()).env_clear().envs(&self.environment).stdin(Stdio::null());
        command.env("HOME", self.dir.path());
        command
    }

    /// Runs a command and waits for its end.
    pub fn run(&self, arguments: &[&str]) -> Done {
        Done::of(arguments, self.command(arguments).output().unwrap())
    }

    /// Runs a command with this standard input and waits for its end.
    pub fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Done {
        let mut command = self.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Fails if the command ends before it has read all input, which is no error.
        let _ = child.stdin.take().unwrap().write_all(input);
        Done::of(arguments, child.wait_with_output().unwrap())
    }

    /// Starts a server and waits until it is ready.
    pub async fn serve(&self) -> Server {
        self.serve_failing("").await
    }

    /// Starts a server with failpoints (feature `failpoints`), such as `forward.after=3*off->1*return`; waits until it is ready.
    pub async fn serve_failing(&self, failpoints: &str) -> Server {
        let mut process = self.spawn(failpoints);
        let line = process.ready_line().await;
        let addresses = line.strip_prefix("attache is ready at ").and_then(|rest| rest.strip_suffix(')'));
        let (url, operator) = addresses.and_then(|both| both.split_once(" (operator: ")).unwrap();
        Server { url: url.to_owned(), operator: operator.to_owned(), process }
    }

    /// Starts a server with failpoints and does not wait.
    pub fn spawn(&self, failpoints: &str) -> Process {
        let mut command = self.command(&["serve"]);
        command.env("FAILPOINTS", failpoints);
        Process::of(command)
    }

    /// Starts a command and does not wait.
    pub fn start(&self, arguments: &[&str]) -> Process {
        Process::of(self.command(arguments))
    }

    /// Starts a command with this standard input and does not wait.
    pub fn start_with_input(&self, arguments: &[&str], input: &[u8]) -> Process {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(input).and_then(|()| file.rewind()).unwrap();
        let mut command = self.command(arguments);
        command.stdin(file);
        Process::of(command)
    }

    /// Starts a server that logs each step of its start, so that a test can kill it at any step; does not wait.
    pub fn spawn_with_trace_log(&self) -> Process {
        let mut command = self.command(&["serve"]);
        command.env("ATTACHE_TELEMETRY__LOG", "trace");
        Process::of(command)
    }

    /// Sends a request to the running server through the operator's socket; returns status and body.
    pub async fn operate(&self, method: Method, route: &str, body: Option<&Value>) -> (u16, Value) {
        let client = http_client::builder().no_proxy().unix_socket(self.data().join("operator.sock")).build().unwrap();
        let request = client.request(method, format!("http://localhost{route}"));
        let request = body.into_iter().fold(request, RequestBuilder::json);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// A setting as the running server shows it; its value as text.
    pub async fn setting(&self, path: &str) -> Value {
        let (_, settings) = self.operate(Method::GET, &format!("/ops/v1/config?path={path}"), None).await;
        let mut setting = settings["settings"][0].clone();
        if !setting["value"].is_string() {
            setting["value"] = setting["value"].to_string().into();
        }
        setting
    }
}

/// The program, which cargo builds for the tests of the package and names to them when it runs them.
pub fn program() -> OsString {
    env::var_os("CARGO_BIN_EXE_attache").unwrap_or_else(|| panic!("not run by cargo as a test of the package attache"))
}

/// The program `attache-client`, which cargo builds into the same folder for the tests of its package.
pub fn client_program() -> PathBuf {
    let path = Path::new(&program()).with_file_name("attache-client");
    assert!(path.exists(), "{} is missing: run the tests with --workspace", path.display());
    path
}

/// A command that has ended.
#[derive(Debug)]
pub struct Done {
    arguments: Vec<String>,
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Its complete standard output.
    pub stdout: String,
    /// Its complete standard error.
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

    /// Asserts success without a word on standard error; returns standard output without the last line feed.
    #[track_caller]
    pub fn said(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self:?}");
        assert_eq!(self.stderr, "", "{:?} succeeded and yet wrote to standard error", self.arguments);
        self.stdout.trim_end()
    }

    /// Asserts success; returns standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(self.said()).unwrap_or_else(|error| panic!("not JSON ({error}): {self:?}"))
    }

    /// Asserts that the command ended with this code and names all of `reasons` on standard error, which it returns.
    #[track_caller]
    pub fn refused(&self, code: i32, reasons: &[&str]) -> &str {
        assert_eq!(self.code, Some(code), "{self:?}");
        for reason in reasons {
            assert!(self.stderr.contains(reason), "{reason:?} is missing: {self:?}");
        }
        &self.stderr
    }
}

/// A server that is ready.
pub struct Server {
    /// The public listener, as `http://127.0.0.1:<port>`.
    pub url: String,
    /// The operator's listener, in the same form.
    pub operator: String,
    /// The running program.
    pub process: Process,
}

/// A running program; killed when dropped.
pub struct Process {
    child: Child,
    /// Standard output so far.
    pub stdout: Lines,
    /// Standard error so far: the log.
    pub stderr: Lines,
}

impl Process {
    fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Self { child, stdout: Lines::of(stdout), stderr: Lines::of(stderr) }
    }

    /// Waits until it has logged this number of lines, is ready, or has ended.
    pub async fn logged_or_ready(&self, lines: usize) {
        tokio::select! {
            _ = self.stderr.reach(lines) => {}
            _ = self.stdout.reach(1) => {}
        }
    }

    /// Waits for the first line of standard output, which a server writes when it is ready.
    pub async fn ready_line(&mut self) -> String {
        if !self.stdout.reach(1).await {
            let status = self.exit().await;
            panic!("it ended before it was ready: {status}\n{}", self.stderr.text());
        }
        self.stdout.text().lines().next().unwrap().to_owned()
    }

    /// Sends `SIGKILL` and waits until the process has ended.
    pub fn kill(&mut self) {
        // Fails only if it has ended already.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Sends a signal by its name, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success(), "kill -s {name}");
    }

    /// Resident memory of the process, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// Waits until it has exited and all its output was read.
    pub async fn exit(&mut self) -> ExitStatus {
        let ended = self.stdout.end().await && self.stderr.end().await;
        assert!(ended, "it does not end; its log:\n{}", self.stderr.text());
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

/// One output of a program, line by line, read by a thread so that its pipe never fills.
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
        let (sender, progress) = watch::channel(Progress::default());
        let written = Arc::clone(&text);
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                let mut text = written.lock().unwrap_or_else(PoisonError::into_inner);
                text.push_str(&line);
                text.push('\n');
                sender.send_modify(|progress| progress.lines += 1);
            }
            sender.send_modify(|progress| progress.ended = true);
        });
        Self { text, progress }
    }

    /// All lines so far.
    pub fn text(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for this number of lines; `false` if the program ended before, or after [`TIME_LIMIT`].
    pub async fn reach(&self, lines: usize) -> bool {
        self.wait(|progress| progress.ended || progress.lines >= lines).await && self.progress.borrow().lines >= lines
    }

    async fn end(&self) -> bool {
        self.wait(|progress| progress.ended).await
    }

    async fn wait(&self, mut there: impl FnMut(&Progress) -> bool) -> bool {
        let mut progress = self.progress.clone();
        tokio::time::timeout(TIME_LIMIT, progress.wait_for(|progress| there(progress))).await.is_ok()
    }
}
