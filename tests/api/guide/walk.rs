//! The guides work as printed: their commands are run, one after the other, in one shell, by somebody who has read nothing else.
//!
//! What a person does in between is done when the agent polls for the first time: so far it has shown a link and a code and waited.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use tokio::sync::mpsc;

use crate::world::{Credential, Person, World};

/// The blocks marked `sh`, in order; every other block shows what is answered and is marked as that.
fn commands(guide: &str) -> String {
    let mut script = String::new();
    for block in guide.split("\n```").skip(1).step_by(2) {
        let (kind, text) = block.split_once('\n').unwrap();
        match kind {
            "sh" => script.push_str(text),
            "json" => assert!(!text.contains("curl"), "{text}"),
            _ => panic!("a block of another kind: {block}"),
        }
        script.push('\n');
    }
    assert_eq!(
        guide.matches("curl -").count(),
        script.matches("curl -").count(),
        "a command stands outside the blocks"
    );
    script
}

/// Runs a script line by line as it prints, with a person beside it; gives all that it printed.
async fn run(
    script: String,
    folder: &Path,
    environment: Vec<(&'static str, String)>,
    world: &World,
    ada: &Person,
) -> String {
    // Waiting is shorter here. Whoever polls too early is told so and goes on.
    let script = format!("set -euo pipefail\nsleep() {{ command sleep 0.1; }}\n{script}");
    let bin = folder.join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_attache"), bin.join("attache")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.arg("-c").arg(script).current_dir(folder).envs(environment).env("PATH", path).env("NO_PROXY", "*");
    let mut shell = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let out = BufReader::new(shell.stdout.take().unwrap());
    let (said, mut heard) = mpsc::unbounded_channel();
    let end = tokio::task::spawn_blocking(move || {
        for line in out.lines() {
            said.send(line.unwrap()).unwrap();
        }
        shell.wait_with_output().unwrap()
    });
    let (mut printed, mut asked) = (String::new(), None);
    while let Some(line) = heard.recv().await {
        if line.starts_with("Open http") {
            asked = Some(line.clone());
        }
        if line == "authorization_pending"
            && let Some(asked) = asked.take()
        {
            confirm(&asked, world, ada).await;
        }
        printed.push_str(&line);
        printed.push('\n');
    }
    let end = end.await.unwrap();
    assert!(end.status.success(), "{}\n{printed}\n{}", end.status, String::from_utf8_lossy(&end.stderr));
    assert!(asked.is_none(), "nobody waited for the person");
    printed
}

/// What the person does with "Open … and type 123456" or "Open … and compare the code XXXX-XXXX".
async fn confirm(asked: &str, world: &World, person: &Person) {
    let code = asked.rsplit(' ').next().unwrap();
    let link = asked.split(' ').nth(1).unwrap();
    assert!(link.starts_with(&world.url), "{asked}");
    match link.split_once("attempt=") {
        Some((_, attempt)) => world.complete(&person.cookie, attempt, code).await.expect(200),
        None => world.device_approve(&person.cookie, code).await.expect(200),
    };
}

async fn guide(world: &World, path: &str) -> String {
    String::from_utf8(world.get(path, &Credential::None).await.body.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_guide_to_authentication_works_as_printed() {
    let world = World::new().await;
    let ada = world.person("ada@example.com").await;
    let folder = tempfile::tempdir().unwrap();
    let script = commands(&guide(&world, "/auth.md").await);
    let environment = vec![("EMAIL", "ada@example.com".to_owned())];
    let printed = run(script, folder.path(), environment, &world, &ada).await;
    for shown in [
        "\"identity_endpoint\":",
        "/claim?attempt=cat_",
        "\"scope\": \"svc.account\"",
        "\"plan_and_usage\"",
        "\"scope\": \"svc.events\"",
    ] {
        assert!(printed.contains(shown), "{shown} is missing in\n{printed}");
    }
    let agents = world.get("/api/v1/account/summary", &ada.cookie).await.expect(200);
    let agents = agents["sections"]["agents"]["agents"].as_array().unwrap();
    let mut kinds: Vec<&str> = agents.iter().map(|agent| agent["type"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["anonymous", "service_auth"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_whole_guide_works_as_printed() {
    let world = World::new().await;
    let (ada, key) = world.librarian("ada@example.com").await;
    let Credential::Bearer(key) = key else { unreachable!() };
    let folder = tempfile::tempdir().unwrap();
    let text = guide(&world, "/llms-full.txt").await;
    let environment = vec![("EMAIL", "ada@example.com".to_owned()), ("KEY", key)];
    let printed = run(commands(&text), folder.path(), environment, &world, &ada).await;
    for shown in [
        "/device?user_code=",
        "\"status\": \"claimed\"",
        "\"level\": \"metadata-only\"",
        "\"written\": 1",
        "202 {\"receipt_id\":",
        "409 {",
        "\"expected\":",
        "the proof holds",
        "\"Space created successfully\"",
        "\"type\":\"complete\"",
        "\"title\": \"Roses\"",
        "# attache",
    ] {
        assert!(printed.contains(shown), "{shown} is missing in\n{printed}");
    }
    assert_eq!(printed.matches("202 {\"receipt_id\":").count(), 3, "{printed}");
    assert_eq!(printed.matches("# attache\n").count(), 2, "{printed}");
    let computers = world.get("/api/v1/account/computers", &ada.cookie).await.expect(200);
    assert_eq!(computers["computers"].as_array().unwrap().len(), 1);
    // What was given back is over.
    let token: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("tokens.json")).unwrap()).unwrap();
    let token = Credential::Bearer(token["access_token"].as_str().unwrap().to_owned());
    world.get("/api/v1/usage/bar", &token).await.refused(401, "unauthorized");
    // And the program that nobody has to read the source of says the same of what it has no key for.
    world.search(&Credential::None, json!({ "query": "roses" })).await.refused(401, "unauthorized");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_short_guide_has_no_commands() {
    let world = World::new().await;
    assert_eq!(commands(&guide(&world, "/llms.txt").await), "");
}
