//! A browser that the tests of a run share, one after the other.
//!
//! A place for a browser is a subfolder of `ATTACHE_TEST_BROWSERS`. A test locks a place, starts a browser there if none answers, and
//! leaves it running for the next test. Each test has its own chromedriver and its own page, and starts without cookies and cache; the
//! storage of pages is separate because each server has its own port.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, os::unix::process::CommandExt};

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::time::{Instant, sleep};

/// Names under which Chromium is installed.
const PROGRAMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/// Maximum time in which a browser answers a question.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);
/// Maximum time of a start.
const START_DEADLINE: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A browser that belongs to one test until this is dropped.
pub struct Shared {
    folder: PathBuf,
    /// `127.0.0.1:PORT` of its developer tools.
    pub address: String,
    _lock: File,
}

impl Shared {
    /// A browser with one empty page. `None` without a folder for browsers or a known program: then chromedriver starts one.
    pub async fn take(arguments: &[String]) -> Option<Self> {
        let all = PathBuf::from(env::var_os("ATTACHE_TEST_BROWSERS")?);
        let path = env::var_os("PATH")?;
        let mut programs = env::split_paths(&path).flat_map(|folder| PROGRAMS.map(|name| folder.join(name)));
        let program = programs.find(|program| program.is_file())?;
        // The runner limits the number of concurrent tests of pages.
        let (folder, lock) = (0..).find_map(|place: u32| {
            let folder = all.join(place.to_string());
            fs::create_dir_all(&folder).unwrap();
            let lock = File::options().create(true).append(true).open(folder.join("lock")).unwrap();
            lock.try_lock().is_ok().then_some((folder, lock))
        })?;
        let address = match reset(&folder).await {
            Some(address) => address,
            None => start(&program, arguments, &folder).await,
        };
        Some(Self { folder, address, _lock: lock })
    }

    /// Kills the browser, as a crash would.
    pub fn kill(&self) {
        kill(&self.folder);
    }
}

/// The address of the browser in this folder, if it answers, after all of its pages are replaced by an empty one.
async fn reset(folder: &Path) -> Option<String> {
    let address = address(folder)?;
    let new = ask(&address, Method::PUT, "/json/new?about:blank").await?;
    loop {
        let pages = ask(&address, Method::GET, "/json/list").await?;
        let mut old =
            pages.as_array()?.iter().filter(|page| page["type"] == "page" && page["id"] != new["id"]).peekable();
        if old.peek().is_none() {
            return Some(address);
        }
        // A page that is closing is still in the list.
        for page in old {
            ask(&address, Method::GET, &format!("/json/close/{}", page["id"].as_str()?)).await?;
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Starts a browser in this folder, after the end of the one that does not answer.
#[expect(clippy::zombie_processes, reason = "the browser serves other tests after this process")]
async fn start(program: &Path, arguments: &[String], folder: &Path) -> String {
    kill(folder);
    let profile = folder.join("profile");
    let deadline = Instant::now() + START_DEADLINE;
    while profile.exists() && fs::remove_dir_all(&profile).is_err() {
        assert!(Instant::now() < deadline, "{} cannot be removed", profile.display());
        sleep(LOOK_EVERY).await;
    }
    let mut command = Command::new(program);
    command.args(arguments).arg("--remote-debugging-port=0").arg(format!("--user-data-dir={}", profile.display()));
    // It outlives this test: the runner ends the process group of a test, and waits until its standard streams are closed.
    command.arg("about:blank").env("HOME", folder).env("TMPDIR", folder).current_dir(folder).process_group(0);
    let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    fs::write(folder.join("process"), process.id().to_string()).unwrap();
    loop {
        if let Some(address) = reset(folder).await {
            return address;
        }
        assert!(Instant::now() < deadline, "the browser in {} does not answer", folder.display());
        sleep(LOOK_EVERY).await;
    }
}

/// The address of the developer tools, which a browser writes when it listens.
fn address(folder: &Path) -> Option<String> {
    let file = fs::read_to_string(folder.join("profile/DevToolsActivePort")).ok()?;
    let port: u16 = file.lines().next()?.parse().ok()?;
    Some(format!("127.0.0.1:{port}"))
}

/// The answer of the developer tools; `null` if it is not JSON, `None` if there is none.
async fn ask(address: &str, method: Method, path: &str) -> Option<Value> {
    let request = Request::builder().method(method).uri(format!("http://{address}{path}"));
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    let answer = async {
        let client = Client::builder(TokioExecutor::new()).build_http();
        let body = client.request(request).await.ok()?.into_body().collect().await.ok()?.to_bytes();
        Some(serde_json::from_slice(&body).unwrap_or_default())
    };
    tokio::time::timeout(ANSWER_DEADLINE, answer).await.ok()?
}

/// Kills the browser that was started in this folder, if it runs.
fn kill(folder: &Path) {
    let Ok(process) = fs::read_to_string(folder.join("process")) else { return };
    // The number could belong to another process by now; the arguments of the browser name its folder.
    let arguments = Command::new("ps").args(["-ww", "-o", "args=", "-p", &process]).output().unwrap();
    if String::from_utf8_lossy(&arguments.stdout).contains(&*folder.to_string_lossy()) {
        // Fails only if it has ended already, which is as good.
        Command::new("kill").args(["-KILL", &process]).stderr(Stdio::null()).status().unwrap();
    }
}
