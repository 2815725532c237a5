//! `attache hook`: sessions of each agent, a server that is away, a sender that is killed, and input that no agent should send.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::event_send::{computer, log};
use blackbox::flow;
use blackbox::process::{Home, Server};
use blackbox::{eventually, process};
use harness::event::Machine;

/// Runs a hook as an agent does, which must not notice it.
#[track_caller]
pub fn hook(home: &Home, tool: &str, input: &[u8]) {
    assert_eq!(home.run_with_input(&["hook", tool], input).said(), "");
}

/// A payload of Claude Code before it uses a tool.
pub fn tool_call(id: &str, command: &str) -> Vec<u8> {
    let payload = json!({
        "session_id": "s1", "cwd": "/home/ada/canary-folder", "hook_event_name": "PreToolUse", "tool_name": "Bash",
        "tool_input": { "command": command }, "tool_use_id": id,
    });
    payload.to_string().into_bytes()
}

pub fn folder(home: &Home) -> PathBuf {
    flow::profile_folder(home).join("hooks")
}

/// The state of one agent according to `--status`.
pub fn status(home: &Home, tool: &str) -> Option<Value> {
    let value = home.run(&["hook", "--status", "--json"]).json();
    value["tools"].as_array().unwrap().iter().find(|status| status["tool"] == tool).cloned()
}

/// Waits until the sender has handled all events.
pub async fn sent(home: &Home) {
    let tools = async || home.run(&["hook", "--status", "--json"]).json()["tools"].as_array().unwrap().clone();
    eventually("the spool is empty", async || {
        let tools = tools().await;
        tools.iter().all(|tool| tool["bytes"] == 0).then_some(())
    })
    .await;
}

/// The process id of the sender, once it runs.
async fn sender(home: &Home) -> String {
    let path = folder(home).join("sender.lock");
    eventually("a sender runs", async || {
        let is_running = home.run(&["hook", "--status", "--json"]).json()["sender_running"] == true;
        fs::read_to_string(&path).ok().filter(|id| is_running && !id.is_empty())
    })
    .await
}

async fn kill_sender(home: &Home) {
    let id = sender(home).await;
    let killed = std::process::Command::new("kill").args(["-9", &id]).status().unwrap();
    assert!(killed.success());
    // Another one that a hook started may have waited for its place.
    eventually("the sender is dead", async || {
        let is_running = home.run(&["hook", "--status", "--json"]).json()["sender_running"] == true;
        let next = fs::read_to_string(folder(home).join("sender.lock")).unwrap();
        (!is_running || next != id).then_some(())
    })
    .await;
}

/// Asserts that each chain of the computer has its positions once, from 0 on; returns the number of events by agent kind.
pub async fn whole_chains(server: &Server, machine: &Machine) -> BTreeMap<String, u64> {
    let mut chains = BTreeMap::<String, Vec<u64>>::new();
    for event in log(server, machine).await {
        chains.entry(flow::text(&event, "agent_id")).or_default().push(event["seq"].as_u64().unwrap());
    }
    let mut lengths = BTreeMap::new();
    for (agent, mut positions) in chains {
        positions.sort_unstable();
        assert!(positions.iter().copied().eq(0..positions.len() as u64), "{agent}: {positions:?}");
        lengths.insert(agent, positions.len() as u64);
    }
    lengths
}

fn payloads(tool: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/hooks/tests/payloads").join(tool);
    let versions = fs::read_dir(folder).unwrap().map(|version| version.unwrap().path());
    let files = versions.flat_map(|version| fs::read_dir(version).unwrap().map(|file| file.unwrap().path()));
    let mut files: Vec<PathBuf> = files.filter(|path| !path.to_str().unwrap().ends_with(".events.json")).collect();
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_each_agent_arrives_on_a_whole_chain() {
    let home = Home::new();
    let (server, machine) = computer(&home).await;
    let mut expected = BTreeMap::new();
    for tool in ["claude-code", "codex", "cursor", "gemini-cli", "github-copilot", "opencode"] {
        for path in payloads(tool) {
            let events: Value = serde_json::from_slice(&fs::read(path.with_extension("events.json")).unwrap()).unwrap();
            *expected.entry(tool.to_owned()).or_default() += events["full"].as_array().unwrap().len() as u64;
            let payload = fs::read(&path).unwrap();
            if path.to_str().unwrap().contains("/notify/") {
                let output = home.run(&["hook", tool, std::str::from_utf8(&payload).unwrap()]);
                assert_eq!(output.said(), "");
            } else {
                hook(&home, tool, &payload);
            }
        }
    }
    sent(&home).await;
    assert_eq!(whole_chains(&server, &machine).await, expected);
    let held = expected.keys().map(|tool| status(&home, tool).unwrap()["held"].clone());
    assert!(held.into_iter().all(|held| held == 0));
    // The rows of `attache status` have no place in its exit code.
    let known = home.run(&["status", "--json"]);
    assert!(known.stdout.contains("\"tool\": \"opencode\""), "{known:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_wait_for_a_server_that_is_away_and_arrive_once_and_in_order() {
    let (home, _) = flow::at_fixed_address();
    let (mut server, machine) = computer(&home).await;
    server.process.kill();
    for nth in 0..20 {
        hook(&home, "claude-code", &tool_call(&format!("call-{nth}"), "true"));
    }
    // Delivered twice by the agent.
    hook(&home, "claude-code", &tool_call("call-3", "true"));
    let waiting = eventually("the failure is reported", async || {
        status(&home, "claude-code").filter(|status| status["error"].is_string())
    });
    let waiting = waiting.await;
    assert_eq!((&waiting["spooled"], &waiting["sent"]), (&json!(21), &json!(0)));
    assert!(flow::text(&waiting, "error").contains("cannot be reached"), "{waiting}");
    let server = home.serve().await;
    sent(&home).await;
    assert_eq!(whole_chains(&server, &machine).await, BTreeMap::from([("claude-code".to_owned(), 20)]));
    let mut events = log(&server, &machine).await;
    events.sort_by_key(|event| event["seq"].as_u64());
    let times: Vec<i64> = events.iter().map(|event| event["ts_edge_ms"].as_i64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let settled = status(&home, "claude-code").unwrap();
    assert_eq!((&settled["error"], &settled["failed"]), (&Value::Null, &json!(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_that_is_killed_anywhere_sends_each_event_once() {
    let home = Home::new();
    let (server, machine) = computer(&home).await;
    let mut count = 0;
    for round in 0..6 {
        // Each round kills the sender after another number of events.
        for nth in 0..12 {
            hook(&home, "codex", &tool_call(&format!("call-{round}-{nth}"), "true"));
            count += 1;
            if nth == round * 2 {
                kill_sender(&home).await;
            }
        }
        if round % 2 == 0 {
            kill_sender(&home).await;
        }
    }
    hook(&home, "codex", &tool_call("last", "true"));
    sent(&home).await;
    assert_eq!(whole_chains(&server, &machine).await, BTreeMap::from([("codex".to_owned(), count + 1)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_that_run_together_lose_nothing() {
    let home = Home::new();
    let (server, machine) = computer(&home).await;
    let start = |nth: usize| {
        let mut command = home.command(&["hook", "cursor"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let payload = json!({
            "conversation_id": "c1", "hook_event_name": "preToolUse", "tool_name": "Shell", "tool_use_id": nth.to_string(),
            "tool_input": { "command": "x".repeat(5000) },
        });
        child.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
        child
    };
    let children: Vec<_> = (0..50).map(start).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    sent(&home).await;
    assert_eq!(whole_chains(&server, &machine).await, BTreeMap::from([("cursor".to_owned(), 50)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_disturbs_no_agent() {
    let home = Home::new();
    // Without a profile nothing is written.
    hook(&home, "claude-code", &tool_call("1", "true"));
    assert!(!flow::profile_folder(&home).exists());
    let (server, machine) = computer(&home).await;
    let large = json!({ "session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": "x".repeat(100 << 20) });
    let inputs: [&[u8]; 6] =
        [b"", b"{", b"[1]", b"\xff\xfe", br#"{"session_id":"s","hook_event_name":"Stop","x":"#, b"null"];
    for input in inputs {
        hook(&home, "claude-code", input);
    }
    hook(&home, "claude-code", large.to_string().as_bytes());
    hook(&home, "no-agent", &tool_call("1", "true"));
    for arguments in [
        &["hook", "codex", "no json"][..],
        &["hook", "codex", "{}", "--new-option"],
        &["hook", "codex", "--profile", "../x", "{}"],
    ] {
        assert_eq!(home.run(arguments).said(), "");
    }
    sent(&home).await;
    // The truncated payloads of the prompt and the stop are recorded.
    assert_eq!(whole_chains(&server, &machine).await, BTreeMap::from([("claude-code".to_owned(), 2)]));
    let noted = fs::read_to_string(folder(&home).join("hook.log")).unwrap();
    assert!(noted.contains("is no JSON object") && noted.contains("\"no-agent\" is no coding agent"), "{noted}");
    for file in fs::read_dir(folder(&home)).unwrap() {
        let mode = std::os::unix::fs::PermissionsExt::mode(&file.unwrap().metadata().unwrap().permissions());
        assert_eq!(mode & 0o077, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_cannot_be_written_and_a_full_spool_disturb_no_agent() {
    let home = Home::new();
    let (server, machine) = computer(&home).await;
    // A file in place of the folder: the tests may run as a user who may write everywhere.
    fs::write(folder(&home), "").unwrap();
    hook(&home, "claude-code", &tool_call("1", "true"));
    fs::remove_file(folder(&home)).unwrap();

    fs::create_dir(folder(&home)).unwrap();
    let lock = fs::File::create(folder(&home).join("sender.lock")).unwrap();
    lock.lock().unwrap();
    fs::File::create(folder(&home).join("claude-code.spool")).unwrap().set_len(64 << 20).unwrap();
    for nth in 0..3 {
        hook(&home, "claude-code", &tool_call(&nth.to_string(), "true"));
    }
    assert_eq!(status(&home, "claude-code").unwrap()["refused_now"], 3);
    // A hook that was killed while it wrote: the next event starts on a new line.
    fs::write(folder(&home).join("claude-code.spool"), "{\"spool\":\"x\"}\n{\"event\":{\"event_type\"").unwrap();
    drop(lock);
    hook(&home, "claude-code", &tool_call("4", "true"));
    sent(&home).await;
    let settled = status(&home, "claude-code").unwrap();
    assert_eq!((&settled["sent"], &settled["refused"], &settled["refused_now"]), (&json!(1), &json!(3), &json!(0)));
    assert_eq!(settled["damaged"], 1);
    let event = log(&server, &machine).await.remove(0);
    let proof = flow::proof(&server, &machine, &flow::text(&event, "event_id")).await;
    let canonical = canonical(&proof);
    assert_eq!(canonical["payload"]["gap"], 3, "{canonical}");
}

/// The event of a proof.
pub fn canonical(proof: &Value) -> Value {
    use base64::Engine as _;
    let bytes = base64::prelude::BASE64_STANDARD.decode(flow::text(proof, "canonical_b64")).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[test]
fn the_sender_holds_no_file_of_the_agent_open() {
    // The output of a shell ends when the last process has closed it.
    let home = Home::new();
    flow::keep_profile(&home, "http://127.0.0.1:9", None, None);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "exec 7>&1; echo '{\"hook_event_name\":\"Stop\"}' | \"$0\" hook claude-code; echo done"]);
    shell.arg(process::program()).env_clear().env("HOME", home.dir.path()).env("PATH", "/usr/bin:/bin");
    let done = shell.output().unwrap();
    assert_eq!(String::from_utf8(done.stdout).unwrap(), "done\n");
    assert!(folder(&home).join("claude-code.spool").exists());
}
