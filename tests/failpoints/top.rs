//! `attache top` at a terminal: a key with crashing actors, and a panic of the view itself.

use blackbox::client::{Client, Credential};
use blackbox::eventually;
use blackbox::flow;
use blackbox::process::Home;
use blackbox::terminal::Terminal;
use serde_json::{Value, json};

const SMALL: (u16, u16) = (80, 24);

#[tokio::test(flavor = "multi_thread")]
async fn a_crashed_key_is_seen_with_its_request_released_and_quarantined() {
    let home = Home::new().set("limits.claim_starts_per_minute", "0");
    let server = home.serve_failing("claims.exchange=panic").await;
    let identity = flow::identity(&server, &json!({ "type": "anonymous" })).await;
    let [token, id] = ["claim_token", "registration_id"].map(|name| flow::text(&identity, name));
    for _ in 0..3 {
        flow::token_by_claim(&server, &token).await.refused(424, "temporarily_unavailable");
    }
    let crashed = eventually("it is quarantined", async || {
        let keys = home.run(&["admin", "actor", "crashed", "--json"]).json();
        keys[0]["quarantined_until"].is_string().then(|| keys[0].clone())
    })
    .await;
    let request = flow::text(&crashed, "request_id");

    let mut terminal = Terminal::start(&home, &["top", "--sort", "crashes"], &[], SMALL);
    let short = format!("…{}", &id[id.len() - 8..]);
    terminal.shows(&[&short, "quarantined", "3 crashes"]).await;
    terminal.press(&format!("/{request}\rj\r"));
    let key = format!("claims:{id}");
    let (named, of_request) = (format!("{key} on "), format!("request {request}"));
    terminal.shows(&[&named, &of_request, "error: failpoint claims.exchange"]).await;
    terminal.press("q");
    terminal.shows(&[&format!("release {key}")[..40], "Reason:"]).await;
    terminal.press("the row is mended\r");
    terminal.shows(&["is released: its next message"]).await;
    let start = async || {
        let url = format!("{}/api/v1/agent-auth/claim", server.url);
        Client::new().post(&url, Credential::None, &json!({ "claim_token": token })).await.status
    };
    eventually("the key is served", async || (start().await == 200).then_some(())).await;

    // A released key has a clean record, so another one is crashed and quarantined by the operator.
    flow::token_by_claim(&server, &token).await.refused(424, "temporarily_unavailable");
    // Enter hides the detail, and Ctrl-U clears the filter: no row matches the request of the released key.
    terminal.press(&format!("\r/\u{15}{id}\r"));
    terminal.shows(&[&short, "1 crash"]).await;
    terminal.press("jqa look at its row\r");
    terminal.shows(&["is refused until ", "PAUSED claims:"]).await;
    eventually("the key is refused", async || (start().await == 424).then_some(())).await;
    home.run(&["admin", "actor", "quarantine", "claims", &id, "--reason", "again"]).refused(1, &["a look at its row"]);
    terminal.press("Q");
    assert_eq!(terminal.exit().await.code(), Some(0));
    let acts = home.run(&["admin", "act", "list", "--target", &key, "--json"]).json();
    let acts: Vec<Value> = acts.as_array().unwrap().iter().map(|act| json!([act["act"], act["reason"]])).collect();
    let expected = json!([
        ["key_quarantine", "again"],
        ["key_quarantine", "a look at its row"],
        ["key_release", "the row is mended"]
    ]);
    assert_eq!(json!(acts), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_restores_the_terminal_before_its_message() {
    let home = Home::new();
    let mut terminal = Terminal::start(&home, &["top"], &[("FAILPOINTS", "top.drawn=2*off->panic")], SMALL);
    assert_eq!(terminal.exit().await.code(), Some(101));
    assert!(terminal.text().contains("failpoint top.drawn"), "{}", terminal.text());
}
