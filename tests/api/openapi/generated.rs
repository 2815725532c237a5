//! Third-party programs read the description: a linter, and a generator of clients in another language.

use std::path::Path;
use std::process::Stdio;

use harness::npm;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use blackbox::client::{Credential, attempt_of};
use blackbox::world::World;

/// An agent that only uses the generated types.
const AGENT: &str = include_str!("agent.mts");

/// As strict as the compiler can be.
const COMPILER: &str = r#"{
  "compilerOptions": { "strict": true, "target": "es2022", "lib": ["es2022", "dom"], "module": "nodenext", "types": [] },
  "files": ["agent.mts"]
}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_linter_finds_no_error_in_the_description() {
    let Some(packages) = npm::packages() else { return };
    let world = World::on_sqlite().await;
    let dir = folder(&world, &packages).await;
    let mut linted = node(&dir, &["node_modules/@redocly/cli/bin/cli.js", "lint", "openapi.json", "--format=json"]);
    let linted = linted.output().await.unwrap();
    let value: Value = serde_json::from_slice(&linted.stdout).unwrap_or_else(|error| panic!("{error}: {linted:?}"));
    assert!(linted.status.success(), "{value:#}");
    assert_eq!(value["totals"]["errors"], 0, "{value:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_was_generated_in_another_language_completes_the_flow_of_an_agent() {
    let Some(packages) = npm::packages() else { return };
    let world = World::on_sqlite().await;
    let person = world.person("ada@example.com").await;
    let dir = folder(&world, &packages).await;
    run(node(&dir, &["node_modules/openapi-typescript/bin/cli.js", "openapi.json", "--output", "api.d.ts"])).await;
    tokio::fs::write(dir.join("agent.mts"), AGENT).await.unwrap();
    tokio::fs::write(dir.join("tsconfig.json"), COMPILER).await.unwrap();
    run(node(&dir, &["node_modules/typescript/bin/tsc", "--project", "."])).await;
    let mut agent = node(&dir, &["agent.mjs", &world.url]);
    let mut agent = agent.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(agent.stdout.take().unwrap()).lines();
    let claim: Value = serde_json::from_str(&said.next_line().await.unwrap().unwrap()).unwrap();
    let code = claim["user_code"].as_str().unwrap();
    world.complete(&person.cookie, &attempt_of(&claim), code).await.expect(200);
    agent.stdin.take().unwrap().write_all(b"claimed\n").await.unwrap();
    let summary: Value = serde_json::from_str(&said.next_line().await.unwrap().unwrap()).unwrap();
    assert!(agent.wait().await.unwrap().success());
    assert_eq!(summary["account"]["id"], person.account.as_str());
    assert_eq!(summary["agents"]["agents"][0]["type"], "anonymous");
}

/// A folder with the description and the packages.
async fn folder(world: &World, packages: &Path) -> std::path::PathBuf {
    let dir = world.dir.path().join("client");
    tokio::fs::create_dir(&dir).await.unwrap();
    tokio::fs::symlink(packages.join("node_modules"), dir.join("node_modules")).await.unwrap();
    let document = world.get("/openapi.json", &Credential::None).await.body;
    tokio::fs::write(dir.join("openapi.json"), document).await.unwrap();
    tokio::fs::write(dir.join("package.json"), r#"{ "type": "module", "private": true }"#).await.unwrap();
    dir
}

fn node(dir: &Path, arguments: &[&str]) -> Command {
    let mut node = Command::new("node");
    // The linter sends telemetry unless it is disabled.
    node.args(arguments).current_dir(dir).env("REDOCLY_TELEMETRY", "off").env("CI", "true").kill_on_drop(true);
    node
}

async fn run(mut command: Command) {
    let ran = command.output().await.unwrap();
    assert!(ran.status.success(), "{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
}
