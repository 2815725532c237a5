//! The product as a process with its own data folder and configuration.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use domain::Rng;
use serde_json::json;
use tempfile::TempDir;

use crate::client::{self, Answer};
use crate::event::Machine;
use crate::options::{Options, Result};
use crate::plan;
use crate::process::{Server, myself, roomy};
use crate::settle::Debtor;

/// Long enough for a start that is ten times slower than its goal.
const TIME_LIMIT: Duration = Duration::from_mins(1);
/// Bearer token between product and upstream; the harness's upstream ignores it.
const UPSTREAM_TOKEN: &str = "benches";

/// Path of the main database in the folder.
pub const MAIN_DATABASE: &str = "data/attache.db";
/// Path of the log's database in the folder.
pub const LOG: &str = "data/statistics.db";

/// The statistics service of the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upstream {
    Embedded,
    /// Another process, with this delay.
    External(Duration),
}

/// A running server.
#[derive(Debug)]
pub struct Product {
    pub server: Server,
    pub address: SocketAddr,
    /// Address of the external statistics service.
    pub upstream: Option<SocketAddr>,
    program: PathBuf,
    folder: TempDir,
    _upstream: Option<Server>,
}

impl Product {
    /// Starts the product on a new folder.
    pub fn start(options: &Options, upstream: Upstream) -> Result<Self> {
        Self::start_with(options, upstream, "")
    }

    /// Starts the product with additional configuration.
    pub fn start_with(options: &Options, upstream: Upstream, more: &str) -> Result<Self> {
        Self::start_on(make_folder(options)?, options, upstream, more)
    }

    /// Starts the product on a folder that may contain data.
    pub fn start_on(folder: TempDir, options: &Options, upstream: Upstream, more: &str) -> Result<Self> {
        let program = program(options)?;
        let (service, upstream) = match upstream {
            Upstream::Embedded => (None, None),
            Upstream::External(delay) => {
                let mut command = myself(&["upstream", "--delay-ms", &delay.as_millis().to_string()])?;
                let service = Server::start(&mut command, &folder.path().join("upstream.log"), TIME_LIMIT)?;
                let address = service.ready.parse()?;
                (Some(service), Some(address))
            }
        };
        let (address, admin) = (free_address()?, free_address()?);
        fs::write(folder.path().join("config.toml"), configuration(folder.path(), address, admin, upstream) + more)?;
        let server = serve(&program, folder.path())?;
        Ok(Self { server, address, upstream, program, folder, _upstream: service })
    }

    /// Kills and restarts the product on the same folder; returns the time until it serves.
    pub fn kill_and_start(&mut self) -> Result<Duration> {
        self.server.end();
        self.server = serve(&self.program, self.folder.path())?;
        Ok(self.server.started_in)
    }

    /// Kills the product and returns its folder.
    pub fn kill(mut self) -> TempDir {
        self.server.end();
        self.folder
    }

    /// Path of the main database.
    pub fn database(&self) -> PathBuf {
        self.folder.path().join(MAIN_DATABASE)
    }

    /// The conditions to wait for: `tree_size` leaves with the embedded service.
    pub fn debtor(&self, tree_size: u64) -> Debtor<'_> {
        let files = [MAIN_DATABASE, LOG].map(|file| self.folder.path().join(file));
        Debtor {
            server: &self.server,
            tree: self.upstream.is_none().then_some((self.address, tree_size)),
            databases: files.into_iter().filter(|file| file.exists()).collect(),
        }
    }

    /// Registers computers over HTTP.
    pub fn register(&self, count: usize, options: &Options) -> Result<Vec<Machine>> {
        let rng = Rng::seeded(options.seed);
        let mut machines: Vec<Machine> = (0..count).map(|_| Machine::invent(&rng)).collect();
        let bodies =
            machines.iter().map(|machine| json!({"user_cuid": machine.user_cuid, "machine_uuid": machine.uuid}));
        let answers = self.post_all("/api/v1/machines", bodies)?;
        for (machine, answer) in machines.iter_mut().zip(answers) {
            let answer = answer.json(201)?;
            answer["machine_secret"].as_str().ok_or("no machine_secret")?.clone_into(&mut machine.secret);
        }
        Ok(machines)
    }

    /// Registers agents for people; returns their claim tokens. Each has a pending claim.
    pub fn register_agents(&self, count: usize) -> Result<Vec<String>> {
        let bodies =
            (0..count).map(|number| json!({"type": "service_auth", "login_hint": format!("p{number}@example.com")}));
        let answers = self.post_all("/api/v1/agent-auth/identity", bodies)?;
        let token = |answer: Answer| {
            let answer = answer.json(200)?;
            Ok(answer["claim_token"].as_str().ok_or("no claim_token")?.to_owned())
        };
        answers.into_iter().map(token).collect()
    }

    /// Signs a person in with the operator's command; returns the cookie.
    pub fn sign_in(&self, email: &str) -> Result<String> {
        self.admin(&["session", "create", "--email", email])
    }

    /// Creates an account and an API key; returns the key.
    pub fn api_key(&self, email: &str) -> Result<String> {
        self.admin(&["api-key", "create", "--email", email])
    }

    /// Output of an operator's command.
    fn admin(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.arg("admin").args(arguments).arg("--config");
        let done = command.arg(self.folder.path().join("config.toml")).current_dir(self.folder.path()).output()?;
        if !done.status.success() {
            return Err(String::from_utf8_lossy(&done.stderr).into());
        }
        Ok(String::from_utf8(done.stdout)?.trim().to_owned())
    }

    fn post_all(&self, target: &str, bodies: impl Iterator<Item = serde_json::Value>) -> Result<Vec<Answer>> {
        /// Enough connections to share commits.
        const CONNECTIONS: usize = 32;
        let json = ["Content-Type: application/json"];
        let requests: Vec<_> =
            bodies.map(|body| plan::request("POST", target, &json, body.to_string().as_bytes())).collect();
        client::send_all(self.address, &requests, CONNECTIONS.min(requests.len()))
    }
}

/// A folder on the measured disk.
pub fn make_folder(options: &Options) -> Result<TempDir> {
    let parent = options.data.clone().unwrap_or_else(env::temp_dir);
    Ok(tempfile::Builder::new().prefix("attache-bench-").tempdir_in(parent)?)
}

/// Path of the server: from the options, or next to this program.
pub fn program(options: &Options) -> Result<PathBuf> {
    let beside = env::current_exe()?.with_file_name("attache");
    let program = options.server.clone().unwrap_or(beside);
    if program.is_file() { Ok(program) } else { Err(format!("no server at {}", program.display()).into()) }
}

fn serve(program: &Path, folder: &Path) -> Result<Server> {
    let mut command = roomy(program);
    command.args(["serve", "--config"]).arg(folder.join("config.toml")).current_dir(folder);
    Server::start(&mut command, &folder.join("server.log"), TIME_LIMIT)
}

/// The default configuration except for paths, addresses, and limits per IP address, because all requests come from
/// one.
fn configuration(folder: &Path, address: SocketAddr, admin: SocketAddr, upstream: Option<SocketAddr>) -> String {
    let data = folder.join("data").display().to_string();
    let mut text = format!(
        "[data]\ndir = \"{data}\"\n\n\
         [http]\nbind = \"{address}\"\nbase_url = \"http://{address}\"\nconnections_per_address_max = 0\n\n\
         [admin]\nbind = \"{admin}\"\n\n\
         [limits]\nregistrations_per_minute = 0\nclaim_starts_per_minute = 0\ncode_guesses_per_minute = 0\n\n\
         [events.unattached]\nbytes_per_day = 0\nevents_per_day = 0\n\n[events.held]\nsender_percent = 100\n\n\
         [plans.FREE]\nevent_bytes_per_day = 0\nmemory_bytes = 0\n"
    );
    if let Some(upstream) = upstream {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "\n[upstream]\nurl = \"http://{upstream}\"\ntoken = \"{UPSTREAM_TOKEN}\"\n");
    }
    text
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
