//! The guides work as printed: the test runs their commands one after the other in one shell, without other knowledge.
//!
//! [`away`] tests them against an unavailable server and refusals.
//!
//! The person acts when the agent polls for the first time; until then the agent has shown a link and a code.

mod away;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use base64::Engine;
use serde_json::json;
use tokio::sync::mpsc;

use blackbox::client::Credential;
use blackbox::world::{Person, World};

/// The blocks marked `sh`, in order; every other block shows a response and is marked as that.
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
    assert_eq!(guide.matches("curl -").count(), script.matches("curl -").count(), "a command is outside the blocks");
    script
}

/// The functions that the blocks define, without their commands.
fn functions(guide: &str) -> String {
    let (mut found, mut inside) = (String::new(), false);
    for line in commands(guide).lines() {
        inside |= line.split_once("() {").is_some_and(|(name, _)| !name.contains(' '));
        if inside {
            found.push_str(line);
            found.push('\n');
        }
        inside &= line != "}";
    }
    found
}

/// Runs a script and acts as the person when it prints a link; returns its output.
async fn run(
    script: String,
    folder: &Path,
    environment: Vec<(&'static str, String)>,
    world: &World,
    ada: &Person,
) -> String {
    run_beside(script, folder, environment, world, ada, None).await
}

/// [`run`] with a person who sets a consent level as soon as they have a computer.
async fn run_beside(
    script: String,
    folder: &Path,
    environment: Vec<(&'static str, String)>,
    world: &World,
    ada: &Person,
    level: Option<&str>,
) -> String {
    // Waiting is shorter here: a poll that is too early gets `slow_down`, and the script continues.
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
            confirm(&asked, world, ada, level).await;
        }
        printed.push_str(&line);
        printed.push('\n');
    }
    let end = end.await.unwrap();
    assert!(end.status.success(), "{}\n{printed}\n{}", end.status, String::from_utf8_lossy(&end.stderr));
    assert!(asked.is_none(), "no command waited for the person");
    printed
}

/// Acts as the person after "Open … and type 123456" or "Open … and compare the code XXXX-XXXX".
async fn confirm(asked: &str, world: &World, person: &Person, level: Option<&str>) {
    let code = asked.rsplit(' ').next().unwrap();
    let link = asked.split(' ').nth(1).unwrap();
    assert!(link.starts_with(&world.url), "{asked}");
    if let Some((_, attempt)) = link.split_once("attempt=") {
        world.complete(&person.cookie, attempt, code).await.expect(200);
        return;
    }
    world.device_approve(&person.cookie, code).await.expect(200);
    if let Some(level) = level {
        let wanted = json!({ "level": level, "lane": "memory" });
        world.post("/api/v1/consent", &person.cookie, &wanted).await.expect(200);
    }
}

async fn guide(world: &World, path: &str) -> String {
    String::from_utf8(world.get(path, &Credential::None).await.body.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_guide_to_authentication_works_as_printed() {
    let world = World::on_sqlite().await;
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
    let world = World::on_sqlite().await;
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
    // A revoked credential has ended.
    let token: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("tokens.json")).unwrap()).unwrap();
    let token = Credential::Bearer(token["access_token"].as_str().unwrap().to_owned());
    world.get("/api/v1/usage/bar", &token).await.refused(401, "unauthorized");
    // The program reports the same for an API without a key.
    world.search(&Credential::None, json!({ "query": "roses" })).await.refused(401, "unauthorized");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guide_records_no_more_than_the_consent_level() {
    for (level, events) in [("full", 3), ("metadata-only", 3), ("off", 0)] {
        let world = World::on_sqlite().await;
        let ada = world.person("ada@example.com").await;
        let folder = tempfile::tempdir().unwrap();
        let text = guide(&world, "/llms-full.txt").await;
        let (text, _) = text.split_once("\n## Activity and proofs").unwrap();
        let environment = vec![("EMAIL", "ada@example.com".to_owned())];
        let printed = run_beside(commands(text) + "true", folder.path(), environment, &world, &ada, Some(level)).await;
        assert!(printed.contains(&format!("level of memory: {level}\n")), "{printed}");
        assert!(!printed.contains("\"held\""), "{printed}");
        let page = world.activity(ada.cookie.clone(), "?lane=memory").await.expect(200);
        let recorded = page["events"].as_array().unwrap();
        assert_eq!(recorded.len(), events, "{level}: {page}");
        for event in recorded {
            assert_eq!(event["consent_level"], level, "{event}");
            let proof = world.included(ada.cookie.clone(), event["event_id"].as_str().unwrap()).await;
            let bytes = base64::engine::general_purpose::STANDARD.decode(proof["canonical_b64"].as_str().unwrap());
            let told = String::from_utf8(bytes.unwrap()).unwrap().contains("under the mat");
            assert_eq!(told, level == "full" && event["event_type"] == "memory.stored", "{event}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_chain_position_is_recovered_in_a_later_epoch_too() {
    let world = World::on_sqlite().await;
    let ada = world.person("ada@example.com").await;
    let folder = tempfile::tempdir().unwrap();
    let text = guide(&world, "/llms-full.txt").await;
    let (text, _) = text.split_once("\n## Activity and proofs").unwrap();
    let lost = r#"
        step() { seal memory.recalled memory "$LEVEL" '{"memory_id": "m1"}' && send; }
        EPOCH=7 SEQ=0 PREV=GENESIS; step
        EPOCH=0 SEQ=3; step; catch_up; echo "now at $EPOCH/$SEQ"; step
        cp event.json taken.json; jq -c '.ts_edge_ms = 1' unsealed.json > unsealed.anew
        SELF=$(tr -d '\n' < unsealed.anew | sha256sum | cut -d ' ' -f 1)
        jq -c --arg self "$SELF" '.hash_chain.self = $self' unsealed.anew > event.json
        send; catch_up; echo "still at $EPOCH/$SEQ"; step"#;
    let environment = vec![("EMAIL", "ada@example.com".to_owned())];
    let script = commands(text) + lost;
    let printed = run(script, folder.path(), environment, &world, &ada).await;
    let (_, printed) = printed.split_once("now at 7/1\n").unwrap();
    let said: Vec<&str> = printed.lines().filter(|line| !line.is_empty()).map(|line| &line[..12]).collect();
    assert_eq!(said, ["202 {\"receip", "409 {\"error\"", "still at 7/2", "202 {\"receip"], "{printed}");
    assert!(printed.contains("event_id_conflict"), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_anonymous_agent_of_the_guide_is_held_until_claimed() {
    let world = World::on_sqlite().await;
    let ada = world.person("ada@example.com").await;
    let folder = tempfile::tempdir().unwrap();
    let text = guide(&world, "/llms-full.txt").await;
    let section = |name: &str| {
        let (_, rest) = text.split_once(&format!("\n## {name}\n")).unwrap();
        rest.split("\n## ").next().unwrap().to_owned()
    };
    let anonymous = section("Anonymously");
    let (register, claim) = anonymous.split_once("\nWhen a person").unwrap();
    let computers = section("Computers");
    let (computer, attach) = computers.split_once("\nTo be attached").unwrap();
    let registry = section("Events").split_once("\nEvents of one computer").unwrap().0.to_owned();
    let held = r#"
        TOKEN=$VISITOR EPOCH=0 SEQ=0 PREV=GENESIS
        seal memory.stored memory metadata-only '{"memory_id": "m1", "content": "not for everybody"}' && send"#;
    let parts = [register, computer, &registry].map(commands);
    let script =
        format!("{}\n{}\n{held}\n{}\n{}\nsend", functions(&text), parts.join("\n"), commands(claim), commands(attach));
    let printed = run(script, folder.path(), Vec::new(), &world, &ada).await;
    assert!(printed.contains("202 {\"held\":true,\"warning\":\"unattributed"), "{printed}");
    assert!(printed.contains("\"scope\": \"svc.account\""), "{printed}");
    // Sent again by the agent that it is now, from a computer that is attached, it has its place.
    assert_eq!(printed.matches("202 {\"receipt_id\":").count(), 1, "{printed}");
    let page = world.activity(ada.cookie.clone(), "").await.expect(200);
    let event: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("event.json")).unwrap()).unwrap();
    assert_eq!((&page["unclassified"], &page["events"][0]["event_id"]), (&json!([]), &event["event_id"]), "{page}");
    assert_eq!(event["payload"], json!({ "memory_id": "m1" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_heading_of_the_guides_is_separated() {
    let world = World::on_sqlite().await;
    for path in ["/llms.txt", "/llms-full.txt", "/auth.md"] {
        let text = guide(&world, path).await;
        for (above, heading) in text.lines().zip(text.lines().skip(1)).filter(|(_, line)| line.starts_with("## ")) {
            assert_eq!(above, "", "{path}: {heading}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_short_guide_has_no_commands() {
    let world = World::on_sqlite().await;
    assert_eq!(commands(&guide(&world, "/llms.txt").await), "");
}
