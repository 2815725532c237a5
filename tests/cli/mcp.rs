//! `attache mcp`: the official clients of MCP start it and call its tools.

use std::process::Command;

use blackbox::flow;
use blackbox::process::{Home, Server, program};
use harness::npm;
use harness::python::{self, Packages};
use serde_json::{Value, json};

/// A server, and a profile with an attached computer and a key of the same person.
async fn world() -> (Home, Server) {
    let home = Home::new();
    let server = home.serve().await;
    let machine = flow::machine(&server).await;
    let key = home.run(&["admin", "api-key", "create", "--email", "ada@example.com"]).said().to_owned();
    flow::keep_profile(&home, &server.url, Some(&machine), Some(&key));
    (home, server)
}

fn server(home: &Home) -> Value {
    let folder = home.dir.path().to_str().unwrap();
    json!({ "command": program().to_str().unwrap(), "environment": { "HOME": folder }, "folder": folder })
}

fn run(mut client: Command) -> Value {
    let output = client.env("NO_PROXY", "*").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

const TOOLS: [&str; 7] =
    ["search_memory", "add_memory", "list_spaces", "forget_memory", "record_event", "check_consent", "my_activity"];

#[tokio::test(flavor = "multi_thread")]
async fn the_official_python_client_calls_every_tool_on_standard_input() {
    let (home, _server) = world().await;
    let Some(python) = python::with(Packages::Mcp) else { return };
    let mut client = Command::new(python);
    client.args(["-c", include_str!("../api/clients/memory.py")]).arg(server(&home).to_string());
    let seen = run(client);
    for mode in ["auto", "legacy"] {
        let seen = &seen[mode];
        assert_eq!((&seen["server"], &seen["tools"]), (&json!("attache"), &json!(TOOLS)), "{seen}");
        assert_eq!(seen["found"]["results"][0]["title"], "Ferry", "{seen}");
        assert_eq!(seen["read_spaces"], seen["spaces"], "{seen}");
        assert_eq!(seen["resources"], json!(["attache://spaces"]));
        assert_eq!(seen["templates"], json!(["attache://memories/{id}"]));
        assert!(seen["read"].as_str().unwrap().contains("leaves with the tide"), "{seen}");
        assert_eq!(seen["recorded"]["state"], "recorded", "{seen}");
        assert_eq!(seen["activity"]["events"][0]["event_id"], seen["recorded"]["event_id"], "{seen}");
        assert!(seen["consent"].is_object(), "{seen}");
        assert_eq!(seen["bad_event"]["is_error"], true, "{seen}");
        // Protocol version 2026-07-28 has no separate code for a missing resource.
        let missing = if mode == "auto" { -32602 } else { -32002 };
        assert_eq!(seen["gone"]["code"], missing, "{seen}");
        assert_eq!(seen["wrong"]["is_error"], true, "{seen}");
        assert!(seen["wrong"]["text"].as_str().unwrap().contains("queri"), "{seen}");
        assert_eq!(seen["unknown"]["code"], -32602, "{seen}");
    }
    // Both records are in the log, once each.
    let activity = home.run(&["activity", "--json"]).json();
    let skills = activity["events"].as_array().unwrap().iter().filter(|event| event["event_type"] == "skill.invoked");
    assert_eq!(skills.count(), 2, "{activity}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_typescript_client_calls_tools_on_standard_input() {
    let (home, _server) = world().await;
    let Some(packages) = npm::packages() else { return };
    let setup = json!({ "packages": packages, "server": server(&home) });
    let mut client = Command::new("node");
    client
        .args(["--input-type=module", "--eval", include_str!("../api/clients/memory.mjs"), "--"])
        .arg(setup.to_string());
    let seen = run(client);
    assert_eq!((&seen["server"], &seen["tools"]), (&json!("attache"), &json!(TOOLS)), "{seen}");
    assert_eq!(seen["found"]["results"][0]["id"], seen["added"]["id"], "{seen}");
    assert_eq!((&seen["hints"]["forget_memory"], &seen["hints"]["search_memory"]), (&json!(true), &json!(false)));
    assert_eq!(seen["unknown"], -32602, "{seen}");
}

#[test]
fn without_a_server_each_call_says_why_it_failed() {
    let home = Home::new();
    let lines = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
            "name": "search_memory", "arguments": { "query": "x" } } }),
    ];
    let input = lines.map(|line| line.to_string()).join("\n") + "\n";
    let output = home.run_with_input(&["mcp"], input.as_bytes());
    let answers: Vec<Value> = output.said().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let called = answers.iter().find(|answer| answer["id"] == 2).unwrap();
    assert_eq!(called["result"]["isError"], true, "{called}");
    assert!(called["result"]["content"][0]["text"].as_str().unwrap().contains("API key"), "{called}");
}
