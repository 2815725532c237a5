//! The coding agents themselves: each lists the configuration of `attache connect`, runs its hooks and calls its MCP server, and does
//! neither after `disconnect`. Their model is `tests/agents/model.mjs`, and a proxy that does not exist prevents other network requests.

mod agents;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use self::agents::{Agent, CLAUDE_CODE, CODEX, GEMINI_CLI, GITHUB_COPILOT, OPENCODE};
use crate::connect::{approve, connecting};
use crate::event_send::log;
use crate::hook::{canonical, hook, sent, status};
use blackbox::process::{Home, Server};
use blackbox::{TIME_LIMIT, eventually, flow};
use harness::event::Machine;
use harness::npm;

/// Timeout after which an agent is killed with its child processes.
const DEADLINE: Duration = Duration::from_mins(1);

/// The model of the agents; killed when dropped.
struct Model {
    process: Child,
    url: String,
}

impl Model {
    /// `file` is written by the agents.
    fn start(file: &Path) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents/model.mjs");
        let mut command = Command::new("node");
        command.arg(script).arg(file).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { process, url: format!("http://127.0.0.1:{}", port.trim()) }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An agent that is connected with a server, in its own home folder.
struct Workplace {
    agent: &'static Agent,
    program: PathBuf,
    home: Home,
    server: Server,
    machine: Machine,
    model: Model,
}

impl Workplace {
    async fn connected(agent: &'static Agent) -> Option<Self> {
        let program = npm::agent(agent.program)?;
        let home = Home::new();
        let server = home.serve().await;
        // Its name must not leave the computer.
        let folder = home.dir.path().join("harbour");
        fs::create_dir(&folder).unwrap();
        let model = Model::start(&folder.join("written.txt"));
        for (name, text) in agent.before {
            let path = home.dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text.replace("MODEL", &model.url)).unwrap();
        }
        let ada = flow::session(&home, "ada@example.com");
        let (mut connect, code) = connecting(&home, &[agent.tool, "--server", &server.url]).await;
        approve(&server, &ada, &code, &["with_key"]).await;
        assert_eq!(connect.exit().await.code(), Some(0), "{}{}", connect.stdout.text(), connect.stderr.text());
        let profile = flow::profile(&home);
        let member = |name: &str| profile["machine"][name].as_str().unwrap().to_owned();
        let machine =
            Machine { user_cuid: member("user_cuid"), uuid: member("machine_uuid"), secret: member("secret") };
        Some(Self { agent, program, home, server, machine, model })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.dir.path().join(name)
    }

    /// Runs the agent to its end; returns its output.
    fn run(&self, arguments: &[&str]) -> String {
        // A file, because processes that the agent leaves behind would hold a pipe open.
        let printed = self.path("printed");
        let file = fs::File::create(&printed).unwrap();
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(self.path("harbour")).process_group(0).stdin(Stdio::null());
        command.stdout(file.try_clone().unwrap()).stderr(file).env_clear();
        command.env("HOME", self.home.dir.path()).env("PATH", std::env::var_os("PATH").unwrap());
        command.env("HTTP_PROXY", "http://127.0.0.1:9").env("HTTPS_PROXY", "http://127.0.0.1:9");
        command.env("NO_PROXY", "127.0.0.1,localhost");
        for (name, value) in self.agent.environment {
            command.env(name, value.replace("MODEL", &self.model.url));
        }
        let mut child = command.spawn().unwrap();
        let deadline = Instant::now() + DEADLINE;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            if Instant::now() > deadline {
                let _ = Command::new("kill").args(["-s", "KILL", "--", &format!("-{}", child.id())]).status();
                child.wait().unwrap();
                break None;
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        let said = String::from_utf8_lossy(&fs::read(&printed).unwrap()).into_owned();
        assert!(status.is_some_and(|status| status.success()), "{} {arguments:?}: {status:?}: {said}", self.agent.tool);
        said
    }

    /// Lets the agent do its work.
    fn work(&self) {
        let written = self.path("harbour/written.txt");
        let mut texts = Vec::new();
        for arguments in self.agent.prompts {
            let said = self.run(arguments);
            assert!(said.contains("The harbour is quiet."), "{said}");
            texts.extend(fs::read_to_string(&written));
            let _ = fs::remove_file(&written);
        }
        assert_eq!(texts, ["written by a model\n"]);
    }

    /// The events of the hooks.
    async fn recorded(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for event in log(&self.server, &self.machine).await {
            assert_eq!(event["agent_id"], self.agent.tool);
            let event = canonical(&flow::proof(&self.server, &self.machine, &flow::text(&event, "event_id")).await);
            // An unset level is metadata-only.
            assert!(!event.to_string().contains("harbour"), "{event}");
            let payload = &event["payload"];
            // `attache connect` has sent the first one.
            if event["event_type"] != "skill.installed" {
                let success = payload["succeeded"].as_bool().map(|succeeded| succeeded.to_string());
                let texts = [payload["activity"].as_str(), payload["skill"].as_str(), success.as_deref()];
                lines.push(texts.into_iter().flatten().collect::<Vec<_>>().join(" "));
            }
        }
        lines.sort();
        lines
    }

    /// Waits for the hooks, some of which run on after the agent has ended. `before` was recorded before it worked.
    async fn assert_recorded(&self, before: Vec<String>) {
        let mut expected = before;
        expected.extend(self.agent.events.iter().map(|line| (*line).to_owned()));
        expected.sort();
        let deadline = Instant::now() + TIME_LIMIT;
        while self.recorded().await.len() < expected.len() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(self.recorded().await, expected);
    }

    /// Sets the level *off*, and waits until the sender has read it.
    async fn switch_off(&self) {
        self.home.run(&["consent", "set", "off"]).said();
        let payload = json!({ "hook": "chat.message", "hook_event_name": "SessionStart", "session_id": "probe" });
        eventually("the sender withholds", async || {
            hook(&self.home, self.agent.tool, payload.to_string().as_bytes());
            tokio::time::sleep(Duration::from_millis(200)).await;
            status(&self.home, self.agent.tool).filter(|status| status["withheld"].as_u64() > Some(0))
        })
        .await;
        sent(&self.home).await;
    }
}

async fn connected_used_and_disconnected(agent: &'static Agent) {
    let Some(workplace) = Workplace::connected(agent).await else { return };
    let (list, listed) = agent.list;
    let said = workplace.run(list);
    assert!(said.contains("attache") && said.contains(listed), "{said}");
    // Claude Code reports the end of a session without a start.
    sent(&workplace.home).await;
    let before = workplace.recorded().await;
    assert!(before.iter().all(|line| line == "session_ended session"), "{before:?}");
    if let Some(arguments) = agent.untrusted {
        workplace.run(arguments);
        sent(&workplace.home).await;
        assert_eq!(workplace.recorded().await, before);
    }
    workplace.work();
    workplace.assert_recorded(before).await;

    workplace.switch_off().await;
    let count = log(&workplace.server, &workplace.machine).await.len();
    workplace.work();
    sent(&workplace.home).await;
    assert_eq!(log(&workplace.server, &workplace.machine).await.len(), count, "an event was sent without consent");

    let undone = workplace.home.run(&["disconnect", agent.tool, "--json"]).json();
    for file in undone["files"].as_array().unwrap() {
        let path = Path::new(file["path"].as_str().unwrap());
        let name = path.strip_prefix(workplace.home.dir.path()).unwrap().to_str().unwrap();
        let known = agent.before.iter().find(|(before, _)| *before == name);
        let text = fs::read_to_string(path).ok();
        if agent.own == Some(name) {
            assert_eq!(file["state"], "edited");
            assert!(!text.unwrap().contains("attache"));
        } else {
            let expected = known.map(|(_, text)| text.replace("MODEL", &workplace.model.url));
            assert_eq!(text, expected, "{file}");
        }
    }
    let said = workplace.run(list);
    assert!(!said.contains("attache"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_code_runs_what_connect_wrote() {
    connected_used_and_disconnected(&CLAUDE_CODE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_runs_what_connect_wrote() {
    connected_used_and_disconnected(&CODEX).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gemini_cli_runs_what_connect_wrote() {
    connected_used_and_disconnected(&GEMINI_CLI).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn github_copilot_runs_what_connect_wrote() {
    connected_used_and_disconnected(&GITHUB_COPILOT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_runs_what_connect_wrote() {
    connected_used_and_disconnected(&OPENCODE).await;
}
