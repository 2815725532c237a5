//! `chromedriver`, and its browser.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};

use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use reqwest::{Method, Url};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::shared::Shared;

/// Maximum number of starts of a chromedriver that exits immediately.
const STARTS_MAX: usize = 5;

/// Arguments of the browser besides those for its profile and its connection.
const ARGUMENTS: [&str; 14] = [
    "--headless=new",
    "--disable-gpu",
    "--disable-crash-reporter",
    "--disable-dev-shm-usage",
    "--no-first-run",
    // No host name is resolved outside this machine, for a page or for the browser itself.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    // The accessible names of elements, for scripts: one command instead of one for each element.
    "--enable-blink-features=ComputedAccessibilityInfo",
    // Work that the page does not need: a spare process for the next site, downloads, models, extensions.
    "--disable-features=SpareRendererForSitePerProcess,Translate,OptimizationHints,OptimizationGuideModelDownloading,MediaRouter",
    "--disable-extensions",
    "--disable-component-extensions-with-background-pages",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
];

/// A chromedriver for one test, killed when dropped. It uses a shared browser, or starts a browser that is connected by a pipe and ends
/// with it, so that a killed test leaves no process.
pub struct Driver {
    process: Child,
    port: u16,
    // Profile, temporary files and home of the browser. Dropped after the process.
    folder: TempDir,
    shared: Option<Shared>,
}

impl Driver {
    /// `None` without chromedriver, which is reported on standard error; with `ATTACHE_TEST_REQUIRE_ALL=1` that fails.
    pub async fn start() -> Option<Self> {
        // chromedriver binds any free port of IPv4 and the same port of IPv6, and exits if the latter is in use.
        for _ in 0..STARTS_MAX {
            match Self::begin()? {
                Ok(mut driver) => {
                    driver.shared = Shared::take(&arguments()).await;
                    return Some(driver);
                }
                Err(ended) => eprintln!("chromedriver ended before it was ready ({ended}); once more"),
            }
        }
        panic!("chromedriver ended {STARTS_MAX} times before it was ready")
    }

    /// Starts chromedriver: `None` if it is absent; the exit status if it ended before it was ready.
    fn begin() -> Option<Result<Self, ExitStatus>> {
        let folder = tempfile::tempdir().unwrap();
        let started = Command::new("chromedriver")
            .arg("--port=0")
            .env("HOME", folder.path())
            .env("TMPDIR", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        let mut process = match started {
            Ok(process) => process,
            Err(error) => {
                let missing = format!("chromedriver does not start ({error}): `make tools` installs it");
                assert!(!harness::postgres::required(), "{missing}");
                eprintln!("SKIPPED: {missing}: this test has shown nothing");
                return None;
            }
        };
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        let port = lines.find_map(|line| line.strip_suffix('.')?.split_once("successfully on port ")?.1.parse().ok());
        Some(match port {
            Some(port) => Ok(Self { process, port, folder, shared: None }),
            None => Err(process.wait().unwrap()),
        })
    }

    /// A browser window.
    pub async fn open(&self) -> Client {
        let options = if let Some(shared) = &self.shared {
            json!({ "debuggerAddress": shared.address })
        } else {
            let mut arguments = arguments();
            arguments.push("--remote-debugging-pipe".to_owned());
            arguments.push(format!("--user-data-dir={}", self.folder.path().join("profile").display()));
            json!({ "args": arguments })
        };
        let Value::Object(capabilities) = json!({
            "goog:chromeOptions": options,
            "goog:loggingPrefs": { "browser": "ALL" },
        }) else {
            unreachable!("an object")
        };
        let mut builder = ClientBuilder::new(HttpConnector::new());
        builder.capabilities(capabilities);
        builder.connect(&format!("http://127.0.0.1:{}", self.port)).await.unwrap()
    }

    /// Kills the browser, as a crash would; `false` if it is not a shared one, which ends with this anyway.
    pub fn kill_browser(&self) -> bool {
        self.shared.as_ref().map(Shared::kill).is_some()
    }
}

fn arguments() -> Vec<String> {
    let mut arguments: Vec<_> = ARGUMENTS.map(str::to_owned).into();
    if is_root() {
        // The sandbox refuses to run as root, which containers often do.
        arguments.push("--no-sandbox".to_owned());
    }
    arguments
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Fails only if it has ended already, which is as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

/// A command of `WebDriver`, or of Chromium's additions to it, below the address of the session.
#[derive(Debug)]
pub struct Order {
    pub path: String,
    /// `None` for GET requests.
    pub body: Option<Value>,
}

impl WebDriverCompatibleCommand for Order {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, <Url as std::str::FromStr>::Err> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        self.body.as_ref().map_or((Method::GET, None), |body| (Method::POST, Some(body.to_string())))
    }
}
