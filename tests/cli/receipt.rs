//! `attache receipt` and `attache verify receipt`: from the events of a session to a file that anyone checks, and what is refused.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

use crate::account::adas;
use crate::event_send::computer;
use crate::hook::{hook, sent};
use blackbox::flow;
use blackbox::process::{Done, Home, Server, program};
use harness::event::{Chain, Machine};
use harness::vectors::changed;

const SESSION: &str = "00000000-0000-7a67-8a14-94a3f41b0634";

/// Runs `attache receipt`, which describes the file on standard error; returns its Markdown and the description.
#[track_caller]
fn written(home: &Home, arguments: &[&str]) -> (String, String) {
    let output = home.run(&[&["receipt"], arguments].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    (output.stdout, output.stderr)
}

fn read(home: &Home, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(home.dir.path().join(name)).unwrap()).unwrap()
}

/// Verifies in a place without server, profile and data.
fn verify(file: &Value, options: &[&str]) -> Done {
    let arguments = [&["verify", "receipt", "-"], options].concat();
    Home::new().run_with_input(&arguments, file.to_string().as_bytes())
}

/// Events of a session: calls of a tool, the third of which fails; content of every kind that a sender could choose.
async fn session(server: &Server, machine: &Machine, count: usize) -> Vec<Value> {
    let mut chain = Chain::of_agent(machine, "codex");
    let mut events = Vec::new();
    for number in 0..count {
        let event = chain.next_with(|event| {
            event["event_type"] = "skill.invoked".into();
            event["lane"] = "skill".into();
            event["consent_level"] = if number == 1 { "full" } else { "metadata-only" }.into();
            event["scope"]["session_uuid"] = SESSION.into();
            event["scope"]["project_id"] = "shop".into();
            event["payload"] = json!({ "skill": "Bash", "succeeded": number != 2 });
            match number {
                1 => event["payload"]["input"] = "cat /home/ada/canary-path".into(),
                3 => event["payload"]["note"] = "a canary of a prompt".into(),
                _ => {}
            }
        });
        flow::event(server, machine, &event).await.receipt();
        events.push(event);
    }
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hooks_of_a_session_become_a_receipt_that_anyone_verifies_offline() {
    let home = Home::new();
    let (server, _) = computer(&home).await;
    let folder = home.dir.path().join("shop");
    std::fs::create_dir(&folder).unwrap();
    let payload = |session: &str, name: &str, id: &str| {
        let mut payload = json!({
            "session_id": session, "cwd": folder, "hook_event_name": name, "tool_name": "Bash", "tool_use_id": id,
            "tool_input": { "command": "cat /home/ada/canary-path" }, "tool_response": "canary",
        });
        if name == "PostToolUseFailure" {
            payload["error"] = "Exit code 1: no canary".into();
        }
        payload.to_string().into_bytes()
    };
    for (session, name, id) in [
        ("s1", "PreToolUse", "1"),
        ("s1", "PostToolUse", "1"),
        ("s2", "PreToolUse", "2"),
        ("s1", "PostToolUseFailure", "3"),
    ] {
        hook(&home, "claude-code", &payload(session, name, id));
    }
    sent(&home).await;
    let (markdown, said) = written(&home, &["--session", "s1", "--output", "r.json"]);
    assert!(said.contains("wrote r.json: 3 events") && said.contains("no prompts, no paths"), "{said}");
    assert!(said.contains("it may be public") && said.contains("attache verify receipt r.json"), "{said}");
    let file = read(&home, "r.json");
    let vkey = flow::vkey(&server).await;
    let head = &file["head"];
    assert_eq!((&head["events"], &head["failures"], &head["gaps"]), (&json!(3), &json!(1), &json!(1)));
    assert_eq!((&head["proven"], &head["content"]), (&json!(3), &json!(0)));
    for shown in ["**attache recorded 3 events, 1 failed**", "`claude-code` 3", "`skill.invoked` 3", &vkey, "/verify>"]
    {
        assert!(markdown.contains(shown), "{shown}: {markdown}");
    }
    let public = format!("{file}{markdown}");
    assert!(!public.contains("canary") && !public.contains("shop") && !public.contains("s1\""), "{public}");
    assert_eq!(flow::profile(&home)["log_key"].as_str(), Some(vkey.as_str()), "the key is pinned on first use");

    // By the digest, by the folder and by the name of the folder, which is no path; the other session has its own receipt.
    let session = head["session_uuid"].as_str().unwrap();
    let project = file["events"][0]["project_id"].as_str().unwrap();
    for (options, count) in [
        (["--session", session, "--project", project], 3),
        (["--session", "s2", "--project", "shop"], 1),
        (["--since", "2020-01-01T00:00:00Z", "--project", "shop"], 4),
        (["--since", "0", "--project", project], 4),
    ] {
        written(&home, &options);
        assert_eq!(read(&home, "attache-receipt.json")["head"]["events"], count, "{options:?}");
    }
    let by_json = home.run(&["receipt", "--session", "s1", "--output", "j.json", "--json"]).json();
    assert_eq!((&by_json["file"], &by_json["head"]), (&json!("j.json"), &read(&home, "j.json")["head"]));

    drop(server);
    let output = verify(&file, &["--key", &vkey]);
    for shown in ["the receipt holds", "3, 1 failed", "all proven", "content  none", "key      given"] {
        assert!(output.said().contains(shown), "{shown}: {output:?}");
    }
    let verified = verify(&file, &["--vkey", &vkey, "--json"]).json();
    assert_eq!((&verified["valid"], &verified["head"]), (&true.into(), head));
    assert_eq!(home.run(&["verify", "receipt", "r.json", "--json"]).json()["key"], "pinned");
    verify(&file, &[]).refused(1, &["no trusted log key", "--key"]);
    std::fs::write(home.dir.path().join("body.md"), format!("Fixes it.\r\n\r\n{}", markdown.replace('\n', "\r\n")))
        .unwrap();
    home.run(&["verify", "receipt", "r.json", "--markdown", "body.md"]).said();
    std::fs::write(home.dir.path().join("body.md"), markdown.replace("1 failed", "0 failed")).unwrap();
    home.run(&["verify", "receipt", "r.json", "--markdown", "body.md"]).refused(1, &["does not contain its Markdown"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn content_is_in_a_receipt_only_on_request_and_is_announced() {
    let home = Home::new();
    let server = home.serve().await;
    let machine = adas(&home, &server).await;
    let events = session(&server, &machine, 5).await;
    flow::event(&server, &machine, &Chain::new(&machine).next()).await.receipt();
    let vkey = flow::vkey(&server).await;
    let canary = |file: &Value| {
        use base64::Engine as _;
        let decode = |event: &Value| {
            let canonical = event["canonical_b64"].as_str().unwrap_or_default();
            String::from_utf8(base64::prelude::BASE64_STANDARD.decode(canonical).unwrap()).unwrap()
        };
        let texts: Vec<String> = file["events"].as_array().unwrap().iter().map(decode).collect();
        texts.concat().matches("canary").count()
    };
    let (_, said) = written(&home, &["--session", SESSION, "--as", "agent"]);
    assert!(said.contains("2 of 5 events have content that it leaves out"), "{said}");
    let file = read(&home, "attache-receipt.json");
    assert_eq!((canary(&file), &file["head"]["proven"], &file["head"]["gaps"]), (0, &json!(3), &json!(0)));
    assert!(verify(&file, &["--key", &vkey]).said().contains("3 proven, 2 only stated"));
    let ids: Vec<&Value> = file["events"].as_array().unwrap().iter().map(|event| &event["leaf"]["event_id"]).collect();
    assert_eq!(ids, events.iter().map(|event| &event["event_id"]).collect::<Vec<_>>());

    let (markdown, said) = written(&home, &["--session", SESSION, "--with-content"]);
    assert!(said.contains("it has the CONTENT of 2 of 5 events"), "{said}");
    assert!(markdown.contains("The receipt has the content of 2 events."), "{markdown}");
    let file = read(&home, "attache-receipt.json");
    assert_eq!((canary(&file), &file["head"]["proven"]), (2, &json!(5)));
    assert!(verify(&file, &["--key", &vkey]).said().contains("of 2 events"));
    // A smaller receipt with totals that fit holds, and shows that an event between its first and last is absent.
    let (_, said) = written(&home, &["--since", "0"]);
    assert!(said.contains("6 events"), "{said}");
}

#[test]
fn a_changed_receipt_is_refused_with_the_place_the_difference_and_the_advice() {
    let vectors = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/receipt.json")).unwrap();
    let vectors: Value = serde_json::from_slice(&vectors).unwrap();
    let key = vectors["vkey"].as_str().unwrap();
    for case in vectors["accepted"].as_array().unwrap() {
        verify(&case["receipt"], &["--key", key]).said();
    }
    for case in vectors["refused"].as_array().unwrap() {
        let file = changed(case, &vectors["accepted"][0]["receipt"]);
        let output = verify(&file, &["--key", key, "--json"]);
        assert_eq!(output.code, Some(1), "{case}");
        let report: Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!((&report["valid"], &report["member"]), (&json!(false), &case["member"]), "{case}");
    }
    let mut file = vectors["accepted"][0]["receipt"].clone();
    file["events"][2]["failed"] = false.into();
    let id = file["events"][2]["leaf"]["event_id"].as_str().unwrap().to_owned();
    verify(&file, &["--key", key])
        .refused(1, &[&format!("event 3 ({id}): failed: expected true, found false"), "ask for a new one"]);
    file["events"].as_array_mut().unwrap().remove(2);
    let said = ["the events say 5, the head says 6", "events were removed or added"];
    verify(&file, &["--key", key]).refused(1, &said);
    for text in ["", "{}", "[]", "not json", "{\"schema\":\"audit-proof/v1\"}"] {
        let output = Home::new().run_with_input(&["verify", "receipt", "-", "--key", key], text.as_bytes());
        output.refused(1, &["the receipt does not hold", "complete and unchanged"]);
    }
    Home::new().run(&["verify", "receipt", "nowhere.json", "--key", key]).refused(1, &["nowhere.json: "]);
    verify(&file, &["--key", "nonsense"]).refused(1, &["invalid --key"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selection_without_events_or_with_too_many_writes_nothing() {
    let home = Home::new();
    let (server, machine) = computer(&home).await;
    session(&server, &machine, 2).await;
    home.run(&["receipt"]).refused(2, &["--session", "--since"]);
    home.run(&["receipt", "--session", "unknown"]).refused(4, &["none of the 2 events since", "--since"]);
    home.run(&["receipt", "--session", SESSION, "--project", "other"]).refused(4, &["none of the 2 events"]);
    home.run(&["receipt", "--since", "2999-01-01T00:00:00Z"]).refused(4, &["none of the 0 events"]);
    home.run(&["receipt", "--since", "yesterday"]).refused(1, &["since"]);
    home.run(&["receipt", "--since", "0", "--output", "no/where.json"]).refused(1, &["no/where.json: "]);
    assert!(!home.dir.path().join("attache-receipt.json").exists());
    // A receipt of a key that is not the pinned one.
    let other = domain::checkpoint::SignerKey::draw("attache/log", &domain::Rng::system()).unwrap();
    flow::edit_profile(&home, |profile| drop(profile.insert("log_key".into(), other.verifier().to_string().into())));
    home.run(&["receipt", "--since", "0"]).refused(1, &["another key of the log than the pinned one"]);
    assert!(!home.dir.path().join("attache-receipt.json").exists());

    let busy = MockServer::start().await;
    let events: Vec<Value> = (0..500).map(|_| json!({ "event_id": flow::uuid() })).collect();
    let page = ResponseTemplate::new(200).set_body_json(json!({ "events": events, "next_cursor": "more" }));
    Mock::given(matchers::path("/api/v1/activity")).respond_with(page).mount(&busy).await;
    home.run(&["profile", "move", "default", "--url", &busy.uri()]).said();
    home.run(&["receipt", "--since", "0"]).refused(1, &["more than 5000 events since 0", "later --since"]);
}

/// The scripts of the steps of the workflow, by name.
fn steps() -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/deploy/receipt.yml");
    let text = std::fs::read_to_string(path).unwrap();
    let named = text.split("\n      - name: ").skip(1);
    let scripts = named.map(|step| {
        let (name, rest) = step.split_once('\n').unwrap();
        let (_, script) = rest.split_once("        run: |\n").unwrap();
        let lines = script.lines().map(|line| line.strip_prefix("          ").unwrap_or_default());
        (name.to_owned(), lines.collect::<Vec<_>>().join("\n"))
    });
    scripts.collect()
}

/// A repository with a base branch `origin/main` and a branch of a pull request.
struct PullRequest {
    folder: tempfile::TempDir,
    bin: PathBuf,
}

impl PullRequest {
    /// `None` if git, curl or sha256sum is not installed.
    fn open() -> Option<Self> {
        for tool in ["git", "curl", "sha256sum"] {
            if Command::new(tool).arg("--version").output().is_err() {
                assert!(!harness::postgres::required(), "{tool} is not installed");
                eprintln!("SKIPPED: {tool} is not installed: this test has shown nothing");
                return None;
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("runner");
        std::fs::create_dir(&bin).unwrap();
        let pull = Self { folder, bin };
        pull.git(&["init", "--quiet", "--initial-branch", "main", "."]);
        pull.commit("README", "shop");
        pull.git(&["branch", "origin/main"]);
        pull.git(&["checkout", "--quiet", "-b", "fix"]);
        Some(pull)
    }

    fn git(&self, arguments: &[&str]) {
        let identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"];
        let output =
            Command::new("git").args(identity).args(arguments).current_dir(self.folder.path()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }

    fn commit(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self.git(&["add", name]);
        self.git(&["commit", "--quiet", "-m", name]);
    }

    /// Runs a script as the runner does; returns its success and its output.
    fn run(&self, script: &str, variables: &[(&str, &str)]) -> (bool, String) {
        let path = std::env::var("PATH").unwrap();
        let output = Command::new("bash")
            .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script])
            .current_dir(self.folder.path())
            .env_clear()
            .envs([("RECEIPT", ".attache/receipt.json"), ("BASE", "origin/main"), ("HOME", "/nowhere")])
            .env("RUNNER_TEMP", &self.bin)
            .env("GITHUB_PATH", self.bin.join("path"))
            .env("PATH", format!("{}:{path}", self.bin.display()))
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        (
            output.status.success(),
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)),
        )
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_workflow_refuses_a_pull_request_without_a_receipt_that_verifies() {
    let Some(pull) = PullRequest::open() else { return };
    let steps = steps();
    let [(_, install), (_, is_new), (_, holds)] = &steps[..] else { panic!("{steps:?}") };
    let home = Home::new();
    let (server, machine) = computer(&home).await;
    session(&server, &machine, 4).await;
    let (markdown, _) = written(&home, &["--session", SESSION]);
    let vkey = flow::vkey(&server).await;
    drop(server);
    let file = std::fs::read_to_string(home.dir.path().join("attache-receipt.json")).unwrap();

    let download = pull.folder.path().join("download");
    std::fs::write(&download, format!("#!/bin/sh\nexec '{}' \"$@\"\n", program().to_str().unwrap())).unwrap();
    let sum = domain::Digest::of(&std::fs::read(&download).unwrap()).to_string();
    let url = format!("file://{}", download.display());
    let (is_installed, said) = pull.run(install, &[("PROGRAM_URL", &url), ("PROGRAM_SHA256", &"0".repeat(64))]);
    assert!(!is_installed, "a program with another digest: {said}");
    let (is_installed, said) = pull.run(install, &[("PROGRAM_URL", &url), ("PROGRAM_SHA256", &sum)]);
    assert!(is_installed && std::fs::read_to_string(pull.bin.join("path")).unwrap().contains("runner"), "{said}");

    let (passes, said) = pull.run(is_new, &[]);
    assert!(!passes && said.contains("is missing: run `attache receipt"), "{said}");
    pull.commit(".attache/receipt.json", &file);
    assert!(pull.run(is_new, &[]).0);
    let description = format!("Fixes it: $(touch pwned) `touch pwned`\r\n\r\n{}", markdown.replace('\n', "\r\n"));
    let check = |description: &str, key: &str| pull.run(holds, &[("DESCRIPTION", description), ("LOG_KEY", key)]);
    let (passes, said) = check(&description, &vkey);
    assert!(passes && said.contains("the receipt holds"), "{said}");
    assert!(!pull.folder.path().join("pwned").exists());

    let (passes, said) = check("Fixes it.", &vkey);
    assert!(!passes && said.contains("does not contain its Markdown"), "{said}");
    let (passes, said) = check(&description, "");
    assert!(!passes && said.contains("ATTACHE_LOG_KEY"), "{said}");
    let other = domain::checkpoint::SignerKey::draw("attache/log", &domain::Rng::system()).unwrap();
    let (passes, said) = check(&description, &other.verifier().to_string());
    assert!(!passes && said.contains("vkey: expected"), "{said}");
    pull.commit(".attache/receipt.json", &file.replace("\"failures\":1", "\"failures\":0"));
    let (passes, said) = check(&description, &vkey);
    assert!(!passes && said.contains("head.failures: the events say 1, the head says 0"), "{said}");

    // The receipt of an earlier pull request.
    pull.commit(".attache/receipt.json", &file);
    pull.git(&["branch", "--force", "origin/main"]);
    pull.commit("fix", "more");
    let (passes, said) = pull.run(is_new, &[]);
    assert!(!passes && said.contains("of an earlier pull request"), "{said}");
}
