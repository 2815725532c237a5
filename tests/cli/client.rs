//! `attache-client` connects a computer that has no server's program: it records, remembers and verifies.

use std::fs;

use blackbox::flow;
use blackbox::process::{Home, client_program};
use serde_json::Value;

use crate::connect::{approve, connecting};
use crate::hook::{sent, tool_call};

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_with_the_client_alone_records_remembers_and_verifies() {
    let mut home = Home::new();
    let server = home.serve().await;
    let ada = flow::session(&home, "ada@example.com");
    home.run_program(&client_program());
    let (mut connect, code) = connecting(&home, &["claude-code", "--url", &server.url]).await;
    approve(&server, &ada, &code, &["with_key"]).await;
    assert_eq!(connect.exit().await.code(), Some(0), "{}{}", connect.stdout.text(), connect.stderr.text());

    // A hook, as the tool runs it; its sender is a process of the same program.
    let settings: Value =
        serde_json::from_str(&fs::read_to_string(home.dir.path().join(".claude/settings.json")).unwrap()).unwrap();
    let command = settings["hooks"]["PostToolUse"][0]["hooks"][0]["command"].as_str().unwrap();
    assert!(command.starts_with(client_program().to_str().unwrap()), "{command}");
    assert_eq!(home.run_with_input(&["hook", "claude-code"], &tool_call("t1", "ls")).said(), "");
    sent(&home).await;
    let activity = home.run(&["activity", "--json"]).json();
    let event =
        activity["events"].as_array().unwrap().iter().find(|event| event["event_type"] == "skill.invoked").unwrap();
    let id = event["event_id"].as_str().unwrap();
    let proof = home.dir.path().join("proof.json");
    home.run(&["verify", id, "--out", proof.to_str().unwrap()]).said();
    home.run(&["verify", proof.to_str().unwrap()]).said();

    // A page is extracted in a sandboxed process of the same program.
    fs::write(home.dir.path().join("bees.html"), "<title>Bees</title><p>A honeybee steers by the sun.</p>").unwrap();
    home.run(&["add", "bees.html"]).said();
    assert!(home.run(&["search", "bees"]).said().contains("/knowledge/memories/"));
    assert_eq!(home.run(&["status"]).code, Some(0));
}

/// Hooks start a program for each step of an agent, so the smaller one is written into the files of the tool.
#[tokio::test(flavor = "multi_thread")]
async fn connect_writes_the_client_that_is_beside_the_program() {
    let home = Home::new();
    let printed = home.run(&["connect", "cursor", "--print", "--json"]).json();
    let client = client_program();
    let text = printed.to_string();
    assert!(text.contains(client.to_str().unwrap()), "{text}");
}
