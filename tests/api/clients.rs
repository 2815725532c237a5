//! Third-party clients connect at the first attempt: the official clients of MCP and A2A, as separate programs.

use std::process::Command;

use harness::npm;
use harness::python::{self, Packages};
use serde_json::{Value, json};

use blackbox::client::Credential;
use blackbox::world::World;

/// Runs a client until it exits; returns its standard output.
async fn run(mut client: Command) -> Value {
    // The clients use proxies of the environment, which could not reach the test's server.
    client.env("NO_PROXY", "*");
    let output = tokio::task::spawn_blocking(move || client.output().unwrap()).await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

async fn python(packages: Packages, program: &str, url: String) -> Option<Value> {
    let mut client = Command::new(python::with(packages)?);
    client.args(["-c", program]).arg(url);
    Some(run(client).await)
}

/// Asserts the results that every client of MCP has to get.
fn assert_guided(seen: &Value, guide: &str) {
    assert_eq!(seen["version"], "2025-06-18", "{seen}");
    assert_eq!(seen["server"], "attache", "{seen}");
    assert_eq!(seen["tools"], json!(["about_service"]), "{seen}");
    assert_eq!(seen["text"], guide, "{seen}");
    assert_eq!(seen["unknown"], -32602, "{seen}");
}

async fn guide(world: &World) -> String {
    let response = world.get("/llms.txt", &Credential::None).await;
    String::from_utf8(response.body.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_python_client_of_mcp_connects_lists_and_calls() {
    let world = World::on_sqlite().await;
    let url = format!("{}/api/v1/mcp", world.url);
    let Some(seen) = python(Packages::Mcp, include_str!("clients/mcp.py"), url).await else { return };
    for mode in ["auto", "legacy"] {
        assert_guided(&seen[mode], &guide(&world).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_python_client_of_mcp_version_1_connects_lists_and_calls() {
    let world = World::on_sqlite().await;
    let url = format!("{}/api/v1/mcp", world.url);
    let Some(seen) = python(Packages::Mcp1, include_str!("clients/mcp-1.py"), url).await else { return };
    assert_guided(&seen, &guide(&world).await);
    assert_eq!(seen["session"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_typescript_client_of_mcp_connects_lists_and_calls() {
    let world = World::on_sqlite().await;
    let Some(packages) = npm::packages() else { return };
    let setup = json!({ "packages": packages, "url": format!("{}/api/v1/mcp", world.url) });
    let mut client = Command::new("node");
    client.args(["--input-type=module", "--eval", include_str!("clients/mcp.mjs"), "--"]).arg(setup.to_string());
    assert_guided(&run(client).await, &guide(&world).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_client_of_a2a_finds_the_card_and_sends_a_message() {
    let world = World::on_sqlite().await;
    let Some(seen) = python(Packages::A2a, include_str!("clients/a2a.py"), world.url.clone()).await else { return };
    assert_eq!((&seen["card"], &seen["streaming"]), (&json!("attache"), &json!(false)));
    assert_eq!(seen["interfaces"], json!([[format!("{}/api/v1/a2a", world.url), "JSONRPC", "1.0"]]));
    assert_eq!((&seen["answers"], &seen["role"]), (&json!(1), &json!("ROLE_AGENT")));
    assert_eq!(seen["text"], guide(&world).await);
}

/// Asserts the results of the memory tools for every client.
fn assert_remembered(seen: &Value) {
    let tools = json!(["search_memory", "add_memory", "list_spaces", "forget_memory"]);
    assert_eq!((&seen["server"], &seen["tools"]), (&json!("attache-memory"), &tools), "{seen}");
    assert_eq!(seen["found"]["results"][0]["id"], seen["added"]["id"], "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_python_client_of_mcp_calls_the_tools_of_the_memory() {
    let world = World::on_sqlite().await;
    let (_, Credential::Bearer(key)) = world.librarian("ada@example.com").await else {
        panic!("a key is a bearer token")
    };
    let server = json!({ "url": format!("{}/v1/mcp", world.url), "key": key }).to_string();
    let Some(seen) = python(Packages::Mcp, include_str!("clients/memory.py"), server).await else { return };
    for mode in ["auto", "legacy"] {
        let seen = &seen[mode];
        assert_remembered(seen);
        assert_eq!(seen["read_spaces"], seen["spaces"], "{seen}");
        assert!(seen["read"].as_str().unwrap().contains("leaves with the tide"), "{seen}");
        assert_eq!((&seen["gone"]["code"], &seen["unknown"]["code"]), (&json!(-32002), &json!(-32602)), "{seen}");
        assert!(seen["wrong"]["text"].as_str().unwrap().contains("queri"), "{seen}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_typescript_client_of_mcp_calls_the_tools_of_the_memory() {
    let world = World::on_sqlite().await;
    let (_, Credential::Bearer(key)) = world.librarian("ada@example.com").await else {
        panic!("a key is a bearer token")
    };
    let Some(packages) = npm::packages() else { return };
    let server = json!({ "url": format!("{}/v1/mcp", world.url), "key": key });
    let mut client = Command::new("node");
    let setup = json!({ "packages": packages, "server": server }).to_string();
    client.args(["--input-type=module", "--eval", include_str!("clients/memory.mjs"), "--"]).arg(setup);
    assert_remembered(&run(client).await);
}
