//! `attache verify EVENT_ID`: the proof is fetched, and held against a key that was seen before.

use serde_json::Value;
use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

use crate::account::adas;
use blackbox::flow;
use blackbox::process::{Home, Server};
use harness::event::{Chain, Machine};

/// An event that was received, and its computer.
async fn received(home: &Home) -> (Server, Machine, String) {
    let server = home.serve().await;
    let machine = adas(home, &server).await;
    let event = Chain::new(&machine).next();
    flow::event(&server, &machine, &event).await.receipt();
    (server, machine, flow::text(&event, "event_id"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_key_is_stored_and_later_proofs_are_checked_against_it() {
    let home = Home::new();
    let (server, _, id) = received(&home).await;
    let vkey = flow::vkey(&server).await;
    let first = home.run(&["verify", &id, "--out", "proof.json"]);
    assert!(first.said().starts_with("the proof holds\n") && first.said().contains(&id), "{first:?}");
    assert!(first.said().contains(&format!("{vkey} was seen for the first time and is pinned")), "{first:?}");
    assert_eq!(flow::profile(&home)["log_key"].as_str(), Some(vkey.as_str()));

    let second = home.run(&["verify", &id, "--json", "--as", "agent"]).json();
    assert_eq!(
        (&second["valid"], &second["event_id"], &second["key"]),
        (&true.into(), &id.clone().into(), &"pinned".into())
    );
    assert!(!home.run(&["verify", &id]).said().contains("first time"));
    // The stored proof is verified offline with the stored key or a given one.
    drop(server);
    assert_eq!(home.run(&["verify", "proof.json", "--json"]).json()["key"], "pinned");
    assert_eq!(home.run(&["verify", "proof.json", "--vkey", &vkey, "--json"]).json()["key"], "given");
    home.run(&["verify", &id]).refused(7, &["cannot be reached"]);
    let proof = std::fs::read(home.dir.path().join("proof.json")).unwrap();
    let nowhere = Home::new();
    nowhere.run_with_input(&["verify", "-"], &proof).refused(1, &["no trusted log key", "--vkey"]);
    nowhere.run_with_input(&["verify", "-", "--vkey", &vkey, "--pin"], &proof).said();
    // No request was sent, so no server is stored.
    assert_eq!(nowhere.run(&["profile", "show", "--json"]).json()["url"], serde_json::Value::Null);
    nowhere.run_with_input(&["verify", "-"], &proof).said();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_key_is_explained_and_trusted_only_on_request() {
    let home = Home::new();
    let (server, _, id) = received(&home).await;
    let vkey = flow::vkey(&server).await;
    let other = domain::checkpoint::SignerKey::draw("attache/log", &domain::Rng::system()).unwrap();
    let other = other.verifier().to_string();
    flow::edit_profile(&home, |profile| drop(profile.insert("log_key".into(), other.clone().into())));
    let refused = home.run(&["verify", &id, "--out", "proof.json"]);
    refused.refused(1, &["another key of the log", &other, &vkey, "--pin", "another party answers"]);
    assert_eq!(flow::profile(&home)["log_key"].as_str(), Some(other.as_str()), "it is not replaced by itself");
    assert!(home.dir.path().join("proof.json").exists(), "the refused response is stored for inspection");

    home.run(&["verify", &id, "--pin"]).refused(2, &["--vkey"]);
    assert!(home.run(&["verify", &id, "--vkey", &vkey, "--pin"]).said().contains("is pinned"));
    assert_eq!(home.run(&["verify", &id, "--json"]).json()["key"], "pinned");
}

/// A server that answers with this proof `times` times; the profile now names it.
async fn answering(home: &Home, proofs: &[(&Value, u64)]) -> MockServer {
    let server = MockServer::start().await;
    if let Some(note) = proofs.iter().find_map(|(proof, _)| proof["checkpoint"].as_str()) {
        let newest = Mock::given(matchers::path("/api/v1/audit/checkpoint"));
        newest.respond_with(ResponseTemplate::new(200).set_body_string(note)).mount(&server).await;
    }
    for (proof, times) in proofs {
        let response = ResponseTemplate::new(200).set_body_json(proof);
        Mock::given(matchers::any()).respond_with(response).up_to_n_times(*times).mount(&server).await;
    }
    home.run(&["profile", "move", "default", "--url", &server.uri()]).said();
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_waits_for_the_log_is_waited_for() {
    let home = Home::new();
    let (server, machine, id) = received(&home).await;
    let vkey = flow::vkey(&server).await;
    let included = flow::proof(&server, &machine, &id).await;
    let mut pending = included.clone();
    pending["status"] = "pending".into();
    for member in ["leaf_index", "tree_size", "root_hash", "inclusion_path", "checkpoint"] {
        pending[member] = Value::Null;
    }
    let slow = answering(&home, &[(&pending, 2), (&included, 1)]).await;
    home.run(&["verify", &id, "--wait", "0"]).refused(1, &["is not in the signed tree after 0 s"]);
    home.run(&["verify", &id, "--vkey", &vkey]).said();
    let asked = slow.received_requests().await.unwrap();
    assert_eq!(asked.iter().filter(|request| request.url.path() == "/api/v1/audit/verify").count(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_one_may_not_see_has_no_proof() {
    let home = Home::new();
    let (server, _, id) = received(&home).await;
    let unknown = flow::uuid();
    home.run(&["verify", &unknown]).refused(4, &[&unknown, "attache activity"]);
    // An event of another account looks like an unknown one.
    let stranger = Home::new();
    stranger.run(&["machine", "register", "--url", &server.url]).said();
    stranger.run(&["verify", &id]).refused(4, &[&id, "no event "]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_of_another_event_is_no_answer() {
    let home = Home::new();
    let (server, machine, id) = received(&home).await;
    let proof: Value = flow::proof(&server, &machine, &id).await;
    let vkey = flow::vkey(&server).await;
    let _liar = answering(&home, &[(&proof, 1)]).await;
    home.run(&["verify", &flow::uuid(), "--vkey", &vkey]).refused(1, &["for another event", &id]);
}
