//! Consent of hooks: no byte that leaves the computer contains more than the level permits when it is sent.

use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::event_send::log;
use crate::hook::{canonical, folder, hook, sent, status, tool_call};
use blackbox::flow;
use blackbox::process::{Home, Server};
use harness::event::Machine;

/// A proxy in front of a server that records all bytes that it receives.
pub struct Wire {
    url: String,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Wire {
    pub async fn before(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let address = server.url.strip_prefix("http://").unwrap().to_owned();
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&bytes);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&address).await.unwrap();
                tokio::spawn(relay(client, server, Arc::clone(&kept)));
            }
        });
        Self { url, bytes }
    }

    /// All recorded bytes, as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    #[track_caller]
    pub fn contains_none(&self, canaries: &[&str]) {
        let text = self.text();
        for canary in canaries {
            assert!(!text.contains(canary), "{canary}: {text}");
        }
    }
}

async fn relay(client: TcpStream, server: TcpStream, kept: Arc<Mutex<Vec<u8>>>) {
    let ((mut asked, mut answered), (mut answers, mut asks)) = (client.into_split(), server.into_split());
    let requests = async {
        let mut piece = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = asked.read(&mut piece).await {
            kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&piece[..read]);
            if asks.write_all(&piece[..read]).await.is_err() {
                return;
            }
        }
        let _ = asks.shutdown().await;
    };
    let responses = async { tokio::io::copy(&mut answers, &mut answered).await };
    let _ = tokio::join!(requests, responses);
}

/// A server, a computer with the proxy in its profile, and the proxy.
pub async fn watched(home: &Home) -> (Server, Machine, Wire) {
    let server = home.serve().await;
    let machine = flow::machine(&server).await;
    let wire = Wire::before(&server).await;
    flow::keep_profile(home, &wire.url, Some(&machine), None);
    (server, machine, wire)
}

fn prompt(text: &str) -> Vec<u8> {
    json!({ "session_id": "s1", "cwd": "/home/ada/canary-folder", "hook_event_name": "UserPromptSubmit", "prompt": text })
        .to_string()
        .into_bytes()
}

fn edit() -> Vec<u8> {
    json!({
        "session_id": "s1", "cwd": "/home/ada/canary-folder", "hook_event_name": "PostToolUse", "tool_name": "Edit",
        "tool_input": { "file_path": "/home/ada/canary-folder/canary-file.rs", "new_string": "canary-text" },
        "tool_response": { "filePath": "/home/ada/canary-folder/canary-file.rs" }, "tool_use_id": "edit-1",
    })
    .to_string()
    .into_bytes()
}

/// The content of all files of the spool.
pub fn on_disk(home: &Home) -> String {
    let files = fs::read_dir(folder(home)).unwrap().map(|file| fs::read(file.unwrap().path()).unwrap());
    files.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn with_off_nothing_of_an_event_is_sent_or_spooled() {
    let home = Home::new();
    let (server, machine, wire) = watched(&home).await;
    home.run(&["consent", "set", "off"]).said();
    // The level is not known on this computer yet: the event is spooled, without content, and not sent.
    for _ in 0..2 {
        hook(&home, "claude-code", &prompt("canary-prompt"));
        hook(&home, "claude-code", &edit());
        hook(&home, "claude-code", &tool_call("call-1", "canary-command"));
        sent(&home).await;
    }
    wire.contains_none(&["canary", "/api/v1/events", "UserPromptSubmit", "PreToolUse", "Bash"]);
    assert!(wire.text().contains("GET /api/v1/consent"));
    assert_eq!(status(&home, "claude-code").unwrap()["withheld"], 3);
    assert!(!on_disk(&home).contains("canary"));
    assert!(log(&server, &machine).await.iter().all(|event| event["agent_id"] != "claude-code"));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_metadata_only_no_content_is_sent_or_spooled() {
    let home = Home::new();
    let (server, machine, wire) = watched(&home).await;
    // An unset level is metadata-only.
    hook(&home, "claude-code", &prompt("canary-prompt"));
    hook(&home, "claude-code", &edit());
    hook(&home, "claude-code", &tool_call("call-1", "canary-command"));
    let secret = format!("ghp_{}", "x1Y2".repeat(9));
    hook(
        &home,
        "claude-code",
        &json!({ "session_id": "s1", "hook_event_name": "PreToolUse", "tool_name": secret }).to_string().into_bytes(),
    );
    assert!(!on_disk(&home).contains("canary"));
    sent(&home).await;
    wire.contains_none(&["canary", "/home/ada", &secret]);
    assert_eq!(log(&server, &machine).await.len(), 4);
    assert!(wire.text().contains("\"skill\":\"Edit\"") && wire.text().contains("[redacted:github-token]"));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_full_content_is_sent_without_its_secrets() {
    let home = Home::new();
    let (server, machine, wire) = watched(&home).await;
    home.run(&["consent", "set", "full"]).said();
    hook(&home, "claude-code", &prompt("canary-before"));
    sent(&home).await;
    // The first event was spooled before the level was known.
    wire.contains_none(&["canary"]);
    let secret = format!("sk-ant-api03-{}", "x1Y2".repeat(10));
    hook(&home, "claude-code", &prompt(&format!("canary-prompt {secret}")));
    hook(&home, "claude-code", &edit());
    sent(&home).await;
    wire.contains_none(&[&secret, "canary-before"]);
    for content in ["canary-prompt [redacted:api-key]", "canary-text", "canary-file.rs"] {
        assert!(wire.text().contains(content), "{content}");
    }
    let events: Vec<Value> =
        log(&server, &machine).await.into_iter().filter(|event| event["agent_id"] == "claude-code").collect();
    let mut redacted = 0;
    for event in &events {
        let event = canonical(&flow::proof(&server, &machine, &flow::text(event, "event_id")).await);
        redacted += u32::from(event["redacted"] == true);
    }
    assert_eq!((events.len(), redacted), (3, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lower_level_holds_for_spooled_events() {
    let home = Home::new();
    let (server, machine, wire) = watched(&home).await;
    home.run(&["consent", "set", "full"]).said();
    hook(&home, "claude-code", &prompt("before"));
    sent(&home).await;
    // No sender may run while the level changes: this process holds its lock.
    let id = fs::read_to_string(folder(&home).join("sender.lock")).unwrap();
    assert!(std::process::Command::new("kill").args(["-9", &id]).status().unwrap().success());
    let lock = fs::File::options().append(true).open(folder(&home).join("sender.lock")).unwrap();
    lock.lock().unwrap();
    hook(&home, "claude-code", &prompt("canary-prompt"));
    hook(&home, "claude-code", &tool_call("call-1", "canary-command"));
    assert!(on_disk(&home).contains("canary-prompt"));
    home.run(&["consent", "set", "metadata-only", "--lane", "llm"]).said();
    home.run(&["consent", "set", "off", "--lane", "skill"]).said();
    drop(lock);
    hook(&home, "claude-code", &prompt("canary-after"));
    sent(&home).await;
    wire.contains_none(&["canary", "PreToolUse"]);
    let events = log(&server, &machine).await;
    assert_eq!(events.iter().filter(|event| event["agent_id"] == "claude-code").count(), 3);
    assert_eq!(status(&home, "claude-code").unwrap()["withheld"], 1);
    assert!(!on_disk(&home).contains("canary"));
}
