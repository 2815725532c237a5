//! `attache keys`: rotation while the server runs.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use blackbox::client::{Client, Credential};
use blackbox::eventually;
use blackbox::flow;
use blackbox::process::{Home, Server};

/// `kid` by state.
fn kids(home: &Home, state: &str) -> Vec<String> {
    let keys = home.run(&["keys", "list", "--json"]).json();
    let in_state = keys.as_array().unwrap().iter().filter(|key| key["state"] == state);
    in_state.map(|key| flow::text(key, "kid")).collect()
}

async fn published(server: &Server) -> Vec<String> {
    let jwks = Client::new().get(&format!("{}/.well-known/jwks.json", server.url), Credential::None).await.expect(200);
    jwks["keys"].as_array().unwrap().iter().map(|key| flow::text(key, "kid")).collect()
}

fn signed_by(assertion: &str) -> String {
    let header = BASE64_URL_SAFE_NO_PAD.decode(assertion.split('.').next().unwrap()).unwrap();
    flow::text(&serde_json::from_slice::<Value>(&header).unwrap(), "kid")
}

#[test]
fn the_first_run_creates_the_current_and_the_next_signing_key() {
    let home = Home::new();
    home.run(&["migrate"]).said();
    assert_eq!((kids(&home, "active").len(), kids(&home, "next").len(), kids(&home, "retired").len()), (1, 1, 0));
    let output = home.run(&["keys", "list"]);
    let lines: Vec<&str> = output.said().lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].starts_with("kid") && lines[0].contains("state"), "{lines:?}");
}

#[test]
fn a_key_rotation_prints_the_new_signing_key() {
    let home = Home::new();
    home.run(&["migrate"]).said();
    let next = kids(&home, "next");
    assert_eq!(home.run(&["keys", "rotate", "--json"]).json(), json!({ "active": next[0] }));
    let next = kids(&home, "next");
    assert_eq!(home.run(&["keys", "rotate"]).said(), format!("{} signs from now on", next[0]));
    assert_eq!(kids(&home, "retired").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_server_applies_a_key_rotation_and_earlier_signatures_stay_valid() {
    let home = Home::new();
    let server = home.serve().await;
    let person = flow::session(&home, "ada@example.com");
    let (_, tokens) = flow::agent(&server, &person).await;
    let before = flow::text(&tokens, "identity_assertion");
    let [active, next] = ["active", "next"].map(|state| kids(&home, state).remove(0));
    assert_eq!(signed_by(&before), active);
    let keys = published(&server).await;
    assert!(keys.contains(&active) && keys.contains(&next), "the next key is published before it signs: {keys:?}");

    home.run(&["keys", "rotate"]).said();
    let after = eventually("the new key signs", async || {
        let tokens = flow::token_by_assertion(&server, &before).await.expect(200);
        let assertion = flow::text(&tokens, "identity_assertion");
        (signed_by(&assertion) == next).then_some(assertion)
    })
    .await;
    for assertion in [&before, &after] {
        flow::token_by_assertion(&server, assertion).await.expect(200);
    }
    let keys = published(&server).await;
    assert!(keys.contains(&active) && keys.contains(&next) && keys.len() == 3, "{keys:?}");
}
