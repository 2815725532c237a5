//! A server for one tour, in a temporary folder: for a person who has none yet.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use app::config::Settings;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use commands::failure::Failure;

/// Maximum wait for a connection to a server that may run here.
const CONNECTED_WITHIN: Duration = Duration::from_secs(2);

/// Maximum wait until the server is ready; it loads its model and creates its databases.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// Maximum wait until the server has ended.
const ENDED_WITHIN: Duration = Duration::from_secs(10);

/// A running server. Its folder is deleted with it.
#[derive(Debug)]
pub struct TourServer {
    process: Child,
    /// Its settings: the defaults, with its folder.
    pub settings: Settings,
    /// Base URL of its public listener.
    pub url: String,
    folder: TempDir,
}

/// Whether no program of this computer listens at this URL. Another computer, or one that does not answer, is another fault.
pub async fn is_absent(url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(url) else { return false };
    let (host, port) = (url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or_default());
    let is_here = ["127.0.0.1", "localhost", "[::1]"].contains(&host);
    let connecting = TcpStream::connect((host.trim_start_matches('[').trim_end_matches(']'), port));
    let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_here && matches!(timeout(CONNECTED_WITHIN, connecting).await, Ok(Err(error)) if refused(&error))
}

impl TourServer {
    /// Starts this program as a server with default settings on free ports, and waits until it is ready.
    pub async fn start() -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::refused(format!("no server can be started for the tour: {error}"));
        let folder = tempfile::Builder::new().prefix("attache-demo-").tempdir().map_err(failed)?;
        let data = folder.path().join("data");
        let log = std::fs::File::create(log_file(folder.path())).map_err(failed)?;
        let own = std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"ATTACHE_"));
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        for (name, _) in own {
            command.env_remove(name);
        }
        let mut process = command
            .arg("serve")
            .env("ATTACHE_DATA__DIR", &data)
            .env("ATTACHE_HTTP__BIND", "127.0.0.1:0")
            .env("ATTACHE_ADMIN__BIND", "127.0.0.1:0")
            // Without the config.toml of the working folder.
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let mut line = String::new();
        if let Some(output) = process.stdout.take() {
            // Without the line, the log says why.
            let _ = timeout(READY_WITHIN, BufReader::new(output).read_line(&mut line)).await;
        }
        let url = line.strip_prefix("attache is ready at ").and_then(|rest| rest.split_whitespace().next());
        let Some(url) = url.map(str::to_owned) else {
            let said = std::fs::read_to_string(log_file(folder.path())).unwrap_or_default();
            let last = said.lines().last().unwrap_or("it printed nothing");
            return Err(Failure::refused(format!("the server of the tour did not start: {last}")));
        };
        let mut settings = Settings::default();
        settings.data.dir = data;
        Ok(Self { process, settings, url, folder })
    }

    /// Waits until the server ends: by itself, or because Ctrl-C reached it as well.
    pub async fn wait(&mut self) {
        let ended = self.process.wait();
        tokio::select! {
            // An error means that it has ended.
            _ = ended => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }

    /// Ends the server and deletes its folder.
    pub async fn end(mut self) -> Result<(), Failure> {
        if let Some(pid) = self.process.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
            // Fails only if it has ended. It is killed when it takes too long.
            let _ = kill_process(pid, Signal::TERM);
            let _ = timeout(ENDED_WITHIN, self.process.wait()).await;
        }
        drop(self.process);
        let place = self.folder.path().display().to_string();
        self.folder.close().map_err(|error| Failure::refused(format!("{place} cannot be deleted: {error}")))
    }
}

fn log_file(folder: &Path) -> std::path::PathBuf {
    folder.join("server.log")
}
