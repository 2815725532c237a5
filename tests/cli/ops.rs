//! The doors of operators on a running server: `attache config reload` through the socket, and tokens.

use std::os::unix::fs::PermissionsExt;

use blackbox::client::{Client, Credential};
use blackbox::process::{Home, Server};
use serde_json::{Value, json};

/// Sends a reload as an operator with a token.
async fn reload_as(server: &Server, token: &str) -> (u16, Value) {
    let url = format!("{}/ops/v1/config/reload", server.operator);
    let answer = Client::new().post(&url, Credential::Bearer(token.into()), &json!({ "reason": "a test" })).await;
    (answer.status, answer.json())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configuration_is_read_again_through_the_socket() {
    let home = Home::new();
    let file = home.dir.path().join("config.toml");
    let reload = |more: &[&str]| home.run(&[&["config", "reload", "--reason", "a test"], more].concat());
    std::fs::write(&file, "[limits]\nlink_reads_per_minute = 7\n").unwrap();
    reload(&[]).refused(7, &["no server answers at ", "operator.sock"]);
    home.run(&["config", "reload"]).refused(2, &["--reason"]);
    let mut server = home.serve().await;
    assert!(reload(&[]).said().ends_with("nothing differs"));

    std::fs::write(&file, "[limits]\nlink_reads_per_minute = 1\n[http]\nauth_name = \"hidden\"\n").unwrap();
    let preview = reload(&["--dry-run"]);
    let change = "limits.link_reads_per_minute 7 → 1";
    assert!(preview.said().contains(&format!("would change: {change}")), "{preview:?}");
    home.run(&["config", "set", "limits.sign_ins_per_minute", "3"]).said();
    let changed = reload(&[]);
    for part in [&format!("changed: {change}"), "needs a restart: http.auth_name"] {
        assert!(changed.said().contains(part), "{changed:?}");
    }
    assert!(!changed.said().contains("hidden"), "{changed:?}");
    let report = reload(&["--json"]).json();
    assert_eq!((&report["applied"], &report["restart_needed"]), (&json!([]), &json!(["http.auth_name"])), "{report}");
    let shown = home.run(&["config", "show", "limits.sign_ins_per_minute", "--json"]).json();
    assert_eq!((&shown[0]["value"], &shown[0]["source"]), (&json!(3), &json!("override")), "{shown}");

    // One mistake, and nothing changes.
    let broken = home.dir.path().join("broken.toml");
    std::fs::write(&broken, "[limits]\nlink_reads_per_minute = -1\n").unwrap();
    std::fs::rename(&broken, &file).unwrap();
    reload(&[]).refused(78, &["config.toml:2: limits.link_reads_per_minute"]);
    std::fs::write(&file, "").unwrap();

    let acts = home.run(&["admin", "act", "list", "--act", "config_reload", "--by", "socket:", "--json"]).json();
    let outcomes: Vec<&Value> = acts.as_array().unwrap().iter().map(|act| &act["outcome"]).collect();
    assert_eq!(outcomes, ["applied", "applied", "applied"], "{acts}");
    assert_eq!(
        (&acts[1]["reason"], &acts[1]["after"]),
        (&json!("a test"), &json!({ "limits.link_reads_per_minute": 1 }))
    );

    let socket = home.data().join("operator.sock");
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    server.process.signal("TERM");
    server.process.exit().await;
    assert!(!socket.exists(), "a server that has stopped leaves no socket");
    // One that was killed leaves a file, which the next one replaces.
    let mut server = home.serve().await;
    server.process.kill();
    server.process.exit().await;
    assert!(socket.exists());
    let _server = home.serve().await;
    assert!(reload(&[]).said().contains("nothing differs"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_in_force_from_a_reload_to_another() {
    let home = Home::new();
    let file = home.dir.path().join("config.toml");
    std::fs::write(&file, "").unwrap();
    let server = home.serve().await;
    let created = home.run(&["admin", "token", "create", "desk", "--role", "operate"]);
    let (token, lines) = created.said().split_once('\n').unwrap();
    let (_, lines) = lines.split_once("[[admin.operator]]").unwrap();
    let reload = || home.run(&["config", "reload", "--reason", "the desk"]);
    assert_eq!(reload_as(&server, token).await.0, 404);
    std::fs::write(&file, format!("[[admin.operator]]{lines}\n")).unwrap();
    let said = reload();
    assert!(said.said().contains("changed: admin.operator \"…\" → \"…\""), "{said:?}");
    let (status, refused) = reload_as(&server, token).await;
    assert_eq!((status, &refused["error"]), (403, &json!("changes_are_off")), "{refused}");
    std::fs::write(&file, format!("[admin]\nchanges = true\n[[admin.operator]]{lines}\n")).unwrap();
    reload().said();
    assert_eq!(reload_as(&server, token).await.0, 200);
    home.run(&["config", "set", "admin.changes", "false"]).refused(1, &["when the file is read again"]);
    std::fs::write(&file, "").unwrap();
    reload().said();
    assert_eq!(reload_as(&server, token).await.0, 404);
    for place in [home.run(&["admin", "act", "list", "--json"]).stdout, server.process.stderr.text()] {
        assert!(!place.contains(token) && !place.contains("token_sha256"), "{place}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_drained_and_put_back_by_commands() {
    let home = Home::new();
    let server = home.serve().await;
    let ready = async || Client::new().get(&format!("{}/readyz", server.operator), Credential::None).await.status;
    home.run(&["admin", "node", "drain"]).refused(2, &["--reason"]);
    assert!(home.run(&["admin", "node", "drain", "--reason", "a disk"]).said().contains("out of service"));
    assert_eq!(ready().await, 503);
    home.run(&["admin", "node", "drain", "--reason", "a disk"]).refused(1, &["is drained by socket:", "a disk"]);
    assert!(home.run(&["admin", "node", "undrain", "--reason", "a new disk"]).said().contains("in service again"));
    assert_eq!(ready().await, 200);
}

#[test]
fn a_socket_needs_a_path_that_the_system_allows() {
    let long = format!("/tmp/{}.sock", "s".repeat(100));
    Home::new().set("admin.socket", &long).run(&["check"]).refused(78, &["admin.socket", "at most 107"]);
    let off = Home::new().set("admin.socket", "");
    off.run(&["config", "reload", "--reason", "a test"]).refused(1, &["admin.socket"]);
}

#[test]
fn the_operators_api_is_described() {
    let described = Home::new().run(&["openapi", "--ops"]).json();
    let routes: Vec<&String> = described["paths"].as_object().unwrap().keys().collect();
    assert!(routes.iter().all(|path| path.starts_with("/ops/v1/")) && routes.len() == 37, "{routes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_is_paused_by_a_command_and_continues() {
    let home = Home::new();
    let server = home.serve().await;
    let register = async || {
        let url = format!("{}/api/v1/agent-auth/identity", server.url);
        Client::new().post(&url, Credential::None, &json!({ "type": "anonymous" })).await
    };
    let pause = |more: &[&str]| home.run(&[&["admin", "pause"], more].concat());
    let why = ["--reason", "an attack"];
    let paused = pause(&[&["registration", "--for", "30m"], &why[..]].concat());
    assert!(paused.said().starts_with("registration is paused until 2"), "{paused:?}");
    blackbox::eventually("it is paused", async || (register().await.status == 424).then_some(())).await;
    pause(&[&["registration"], &why[..]].concat()).refused(1, &["is paused until 2", "an attack", "--replace"]);
    pause(&[&["registration", "--for", "9days"], &why[..]].concat()).refused(1, &["admin.override_max"]);
    pause(&[&["mail", "--lane", "llm"], &why[..]].concat()).refused(1, &["mail cannot be paused for lane:llm"]);
    pause(&[&["everything"], &why[..]].concat()).refused(2, &["expected one of intake"]);
    pause(&["mail"]).refused(2, &["--reason"]);
    let listed = home.run(&["admin", "pauses"]);
    assert!(listed.said().contains("registration") && listed.said().contains("an attack"), "{listed:?}");
    assert!(home.run(&["doctor"]).said().contains("registration is paused until 2"));
    let resume = || home.run(&["admin", "resume", "registration", "--reason", "it is over"]);
    resume().said();
    blackbox::eventually("it continues", async || (register().await.status == 200).then_some(())).await;
    resume().refused(4, &["no such pause is in force"]);
    let acts = home.run(&["admin", "act", "list", "--target", "pause:registration", "--json"]).json();
    let outcomes: Vec<&Value> = acts.as_array().unwrap().iter().map(|act| &act["outcome"]).collect();
    assert_eq!(outcomes, ["refused", "applied", "refused", "refused", "applied"], "{acts}");
}
