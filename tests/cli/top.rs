//! `attache top`: the state of a server once, and live at a terminal of 80 columns.

use blackbox::eventually;
use blackbox::process::Home;
use blackbox::terminal::Terminal;
use serde_json::{Value, json};

const SMALL: (u16, u16) = (80, 24);

#[tokio::test(flavor = "multi_thread")]
async fn the_state_is_printed_once_without_a_terminal() {
    let home = Home::new();
    home.run(&["top", "--once"]).refused(7, &["no server answers at ", "operator.sock"]);
    let failure = home.run(&["top", "--once", "--json"]);
    let failure: Value = serde_json::from_str(failure.refused(7, &[]).lines().last().unwrap()).unwrap();
    assert_eq!((&failure["error"], &failure["retryable"]), (&json!("unreachable"), &json!(true)), "{failure}");
    home.run(&["top"]).refused(2, &["no terminal", "--once"]);
    home.run(&["top", "--json"]).refused(2, &["--once"]);
    let _server = home.serve().await;
    let why = ["--reason", "an attack", "--for", "30m"];
    home.run(&[&["admin", "pause", "registration"], &why[..]].concat()).said();
    let text = home.run(&["top", "--once", "--filter", "jan"]);
    for part in ["registration is paused until 2", ": an attack", "p99 wait + handling", "janitor", "running"] {
        assert!(text.said().contains(part), "{part}: {text:?}");
    }
    assert!(!text.said().contains("intake"), "{text:?}");
    let state = home.run(&["top", "--once", "--json"]).json();
    let children = state["trees"][0]["tree"]["children"].as_array().unwrap();
    assert!(children.iter().any(|child| child["name"] == "intake" && child["status"] == "running"), "{state}");
    assert_eq!((&state["pauses"][0]["part"], &state["keys"]), (&json!("registration"), &json!([])), "{state}");
    home.run(&["top", "nowhere", "--once"]).refused(1, &["no node has this name or id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_opens_the_listener_and_its_role_decides() {
    let home = Home::new();
    let created = home.run(&["admin", "token", "create", "desk", "--role", "look", "--json"]).json();
    let lines = format!(
        "[admin]\nchanges = true\n[[admin.operator]]\nname = \"desk\"\nrole = \"look\"\ntoken_sha256 = {}\n",
        created["token_sha256"]
    );
    std::fs::write(home.dir.path().join("config.toml"), lines).unwrap();
    let token = created["token"].as_str().unwrap();
    std::fs::write(home.dir.path().join("token"), format!("{token}\n")).unwrap();
    let server = home.serve().await;
    let top = |more: &[&str]| home.run(&[&["top", "--once", "--json"], more].concat());
    top(&["--url", &server.operator]).refused(5, &["--token-file", "ATTACHE_OPERATOR_TOKEN"]);
    top(&["--token-file", "token"]).refused(2, &["--url"]);
    top(&["--url", "ftp://x", "--token-file", "token"]).refused(2, &["is no URL of a server"]);
    top(&["--url", &server.operator, "--token-file", "config.toml"]).refused(5, &["malformed token"]);
    top(&["--url", &server.operator, "--token-file", "absent"]).refused(1, &["absent cannot be read"]);
    top(&["--url", "http://127.0.0.1:9", "--token-file", "token"]).refused(7, &["no server answers", "127.0.0.1:9"]);
    let state = top(&["--url", &server.operator, "--token-file", "token"]).json();
    assert_eq!(state["trees"].as_array().unwrap().len(), 1, "{state}");
    let unknown = Home::new().run(&["admin", "token", "create", "x", "--json"]).json();
    std::fs::write(home.dir.path().join("unknown"), unknown["token"].as_str().unwrap()).unwrap();
    top(&["--url", &server.operator, "--token-file", "unknown"]).refused(5, &["no operator has this token"]);

    let variables = [("ATTACHE_OPERATOR_TOKEN", token)];
    let mut terminal = Terminal::start(&home, &["top", "--url", &server.operator], &variables, SMALL);
    terminal.shows(&[" ready · nothing paused", "intake"]).await;
    terminal.press("dis it broken?\r");
    terminal.shows(&["the role operate is needed, this operator has look", "Enter close"]).await;
    terminal.press("\rQ");
    assert_eq!(terminal.exit().await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_window_may_change_and_a_signal_ends_the_view() {
    let home = Home::new();
    let _server = home.serve().await;
    let mut terminal = Terminal::start(&home, &["top"], &[], SMALL);
    let screen = terminal
        .shows(&[" ready · nothing paused", "Wait+handle", "Restarts", "budget", "? help Q end Enter detail"])
        .await;
    assert!(screen.lines().all(|line| line.chars().count() <= 80) && terminal.has_colours(), "{screen}");
    terminal.resize((130, 40));
    terminal.shows(&["Trouble", "R reload"]).await;
    terminal.resize((40, 10));
    terminal.shows(&["the window is too small: 60 × 16"]).await;
    terminal.resize(SMALL);
    terminal.shows(&["Wait+handle"]).await;
    terminal.press("/outbox");
    eventually("only one row is left", async || (!terminal.text().contains("budget")).then_some(())).await;
    terminal.press("\r\r");
    terminal.shows(&["outbox on ", "Forwards the events", "restarts left", "last pass: "]).await;
    terminal.press("?");
    terminal.shows(&["quarantine the key for 1h", "closes the help"]).await;
    terminal.signal("INT");
    assert_eq!(terminal.exit().await.code(), Some(0));

    let mut terminal = Terminal::start(&home, &["top"], &[("NO_COLOR", "1")], SMALL);
    terminal.shows(&["budget"]).await;
    assert!(!terminal.has_colours(), "{}", terminal.text());
    terminal.signal("TERM");
    assert_eq!(terminal.exit().await.code(), Some(0));
    let mut terminal = Terminal::start(&home, &["top"], &[("TERM", "dumb")], SMALL);
    assert_eq!(terminal.exit().await.code(), Some(2));
    assert!(terminal.text().contains("\"dumb\"") && terminal.text().contains("--once"), "{}", terminal.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_is_awaited() {
    let home = Home::new();
    let mut terminal = Terminal::start(&home, &["top"], &[], SMALL);
    terminal.shows(&["no server answers at "]).await;
    terminal.press("r");
    terminal.shows(&["there is no row to act on"]).await;
    terminal.press("\r");
    let mut server = home.serve().await;
    terminal.shows(&[" ready", "budget"]).await;
    server.process.kill();
    terminal.shows(&["data of ", " ago: no server answers at ", "budget"]).await;
    let _server = home.serve().await;
    terminal.shows(&["by depth · ", " UTC"]).await;
    terminal.press("\u{3}");
    assert_eq!(terminal.exit().await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn acts_are_asked_for_a_reason_and_are_on_record() {
    let home = Home::new();
    let file = home.dir.path().join("config.toml");
    std::fs::write(&file, "[limits]\nlink_reads_per_minute = 7\n").unwrap();
    let server = home.serve().await;
    home.run(&["admin", "pause", "mail", "--reason", "a loop of mails"]).said();
    let mut terminal = Terminal::start(&home, &["top", "--filter", "intake"], &[], SMALL);
    let first = terminal.shows(&["PAUSED mail until ", "intake"]).await.lines().next().unwrap().to_owned();
    assert!(first.contains("by shell:"), "who paused it: {first}");

    // The part of the selected row is selected.
    terminal.press("p\r");
    terminal.shows(&["pause intake on all nodes for 1h", "Reason:"]).await;
    terminal.press("\r");
    terminal.shows(&["a reason has 1 to 500 characters"]).await;
    terminal.press("an attack\r");
    terminal.shows(&["intake is paused until ", "2 PAUSED: intake", "mail"]).await;
    terminal.press("p");
    terminal.shows(&["▸ end the pause of intake until "]).await;
    terminal.press("\rit has ended\r");
    terminal.shows(&["intake continues", "PAUSED mail"]).await;

    terminal.press("ddisk\r");
    terminal.shows(&[" is out of service", " draining · PAUSED mail"]).await;
    terminal.press("dnew disk\r");
    terminal.shows(&[" is in service again", " ready · "]).await;
    terminal.press("l\ra look\r");
    terminal.shows(&["telemetry.log of ", "is \"debug\" until ", "1 override"]).await;

    std::fs::write(&file, "[limits]\nlink_reads_per_minute = 8\n").unwrap();
    terminal.press("Rmore readers\r");
    terminal.shows(&["would change: limits.link_reads_per_minute 7 → 8", "Enter reload"]).await;
    terminal.press("\r");
    terminal.shows(&["changed: limits.link_reads_per_minute 7 → 8"]).await;
    terminal.press("rit is slow\r");
    terminal.shows(&["intake on ", "ends after its messages"]).await;
    terminal.press("Q");
    assert_eq!(terminal.exit().await.code(), Some(0));

    let acts = home.run(&["admin", "act", "list", "--by", "socket:", "--json"]).json();
    let acts: Vec<Value> = acts.as_array().unwrap().iter().map(|act| json!([act["act"], act["reason"]])).collect();
    let expected = json!([
        ["actor_restart", "it is slow"],
        ["config_reload", "more readers"],
        ["config_set", "a look"],
        ["node_undrain", "new disk"],
        ["node_drain", "disk"],
        ["pause_end", "it has ended"],
        ["pause_begin", "an attack"]
    ]);
    assert_eq!(json!(acts), expected, "{}", server.process.stderr.text());
}
