//! Exit codes, and failures as JSON, for scripts.

use serde_json::{Value, json};

use blackbox::flow;
use blackbox::process::{Done, Home};

/// The object on the last line of standard error.
#[track_caller]
fn failure(done: &Done) -> Value {
    let line = done.stderr.lines().last().unwrap_or_else(|| panic!("{done:?}"));
    let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {done:?}"));
    assert_eq!(value["exit_code"], json!(done.code), "{done:?}");
    value
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "for `json!`")]
fn assert_failure(done: &Done, code: i32, error: &str, status: Value, retryable: bool) {
    let value = failure(done);
    assert_eq!(done.code, Some(code), "{done:?}");
    assert_eq!((&value["error"], &value["status"], &value["retryable"]), (&json!(error), &status, &json!(retryable)));
    assert!(value["message"].as_str().is_some_and(|message| !message.is_empty()), "{value}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_failure_has_its_own_code_and_an_object_for_scripts() {
    // The first port has no listener.
    let home =
        Home::new().set("upstream.url", "http://127.0.0.1:1").set("upstream.token", "upstream-token-of-the-test");
    let away = home.run(&["attach", "--url", "http://127.0.0.1:1", "--json"]);
    assert_failure(&away, 7, "unreachable", Value::Null, true);
    let server = home.serve().await;
    let nothing = home.run(&["usage", "--url", &server.url, "--json"]);
    assert_failure(&nothing, 5, "unauthorized", Value::Null, false);
    home.run(&["machine", "register", "--url", &server.url]).said();
    assert_failure(&home.run(&["activity", "--json"]), 75, "temporarily_unavailable", json!(424), true);
    assert_failure(&home.run(&["profile", "show", "other", "--json"]), 4, "not_found", Value::Null, false);

    let key = home.run(&["admin", "api-key", "create", "--email", "ada@example.com"]).said().to_owned();
    flow::edit_profile(&home, |profile| drop(profile.insert("api_key".into(), key.into())));
    assert_failure(&home.run(&["add", "--join", &flow::uuid(), "--json"]), 4, "not_found", json!(404), false);
    let wrong = home.run(&["search", "x", "--threshold", "2", "--json"]);
    assert_failure(&wrong, 1, "invalid_request", json!(400), false);
    let unknown = format!("ak_{}", "A".repeat(43));
    flow::edit_profile(&home, |profile| drop(profile.insert("api_key".into(), unknown.into())));
    assert_failure(&home.run(&["search", "x", "--json"]), 5, "unauthorized", json!(401), false);

    assert_failure(&home.run(&["usage", "--everything", "--json"]), 2, "usage", Value::Null, false);
    let missing = ["admin", "account", "list", "--config", "nowhere.toml", "--json"];
    assert_failure(&home.run(&missing), 78, "invalid_configuration", Value::Null, false);
    let nobody = ["admin", "machine", "list", "--email", "nobody@example.com", "--json"];
    assert_failure(&home.run(&nobody), 4, "not_found", Value::Null, false);
    assert!(home.run(&["profile", "show", "other"]).stderr.starts_with("attache: no profile"), "only with --json");
}

#[test]
fn the_exit_codes_are_listed_and_documented() {
    let home = Home::new();
    let listed = home.run(&["exit-codes"]).said().to_owned();
    let help = home.run(&["help", "exit-codes"]);
    let document = include_str!("../../docs/exit-codes.md");
    for line in listed.lines().take_while(|line| !line.is_empty()) {
        assert!(help.said().contains(line.trim()), "{line}");
        let (code, meaning) = line.trim().split_once("  ").unwrap();
        assert!(document.contains(&format!("| {code} | {meaning}")), "{line} is not in docs/exit-codes.md");
    }
    assert!(listed.lines().count() > 9, "{listed}");
}
