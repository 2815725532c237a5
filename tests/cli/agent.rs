//! `attache agent`: registered, claimed, acting, revoked.

use ::client::Client;
use domain::secret::Secret;
use serde_json::{Value, json};

use blackbox::client::{Client as Http, Credential, attempt_of};
use blackbox::flow;
use blackbox::process::{Home, Process, Server};

/// `agent claim`, waiting for a person: the attempt in its link, and its code.
async fn claiming(home: &Home, arguments: &[&str]) -> (Process, Secret, Secret) {
    let process = home.start(&[&["agent", "claim"], arguments].concat());
    assert!(process.stdout.reach(9).await, "{}{}", process.stdout.text(), process.stderr.text());
    let shown = process.stdout.text();
    let lines: Vec<&str> = shown.lines().map(str::trim).collect();
    let attempt = lines[2].split_once("attempt=").unwrap_or_else(|| panic!("{shown}")).1;
    let (attempt, code) = (Secret::presented(attempt), Secret::presented(lines[6]));
    (process, attempt, code)
}

/// Link and code of a claim that is not polled.
fn no_wait(home: &Home, arguments: &[&str]) -> (Secret, Secret) {
    let output = home.run(&[&["agent", "claim", "--no-wait", "--json"], arguments].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    let value: Value = serde_json::from_str(&output.stdout).unwrap();
    let claim = &value["claim"];
    assert!(claim["until"].is_string() && value["registration_id"].is_string(), "{value}");
    (Secret::presented(attempt_of(claim)), Secret::presented(flow::text(claim, "user_code")))
}

/// An agent that Ada has claimed.
pub async fn claimed(home: &Home, server: &Server) -> Client {
    let ada = flow::person(home, server, "ada@example.com");
    home.run(&["agent", "register", "--url", &server.url]).said();
    let (attempt, code) = no_wait(home, &[]);
    ada.complete(&attempt, &code).await.unwrap();
    home.run(&["agent", "claim"]).said();
    ada
}

/// The response to a request with a token.
async fn summary_status(server: &Server, token: &str) -> u16 {
    let url = format!("{}/api/v1/account/summary", server.url);
    Http::new().get(&url, Credential::Bearer(token.to_owned())).await.status
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_acts_for_its_person_once_the_claim_is_confirmed() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = flow::person(&home, &server, "ada@example.com");
    let output = home.run(&["agent", "register", "--url", &server.url]);
    let id = flow::text(&home.run(&["agent", "show", "--json"]).json(), "registration_id");
    assert!(output.said().contains(&id) && output.said().contains("attache agent claim"), "{output:?}");
    let early = home.run(&["agent", "token", "--json"]).json();
    assert_eq!(early["scope"], "svc.events", "what an unclaimed agent may do, it may do at once");
    home.run(&["account"]).refused(5, &["the agent is not claimed"]);

    let (mut claim, attempt, code) = claiming(&home, &[]).await;
    ada.complete(&attempt, &code).await.unwrap();
    assert_eq!(claim.exit().await.code(), Some(0), "{}", claim.stderr.text());
    assert!(claim.stdout.text().contains("acts for your account now") && claim.stderr.text().is_empty());
    let value = home.run(&["agent", "show", "--json"]).json();
    assert_eq!((&value["claimed"], &value["scope"]), (&json!(true), &json!("svc.account")));
    assert!(home.run(&["agent", "show"]).said().contains("state   claimed"));
    let token = home.run(&["agent", "token"]);
    assert_eq!(summary_status(&server, token.said()).await, 200);
    assert_eq!(home.run(&["agent", "claim", "--json"]).json()["claimed"], true, "once is enough");
    assert_eq!(flow::text(&home.run(&["account", "--json"]).json()["sections"]["agents"]["agents"][0], "id"), id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_bound_to_a_person_is_shown_and_confirmed_only_by_them() {
    let home = Home::new();
    let server = home.serve().await;
    let [ada, eve] = ["ada@example.com", "eve@example.com"].map(|email| flow::person(&home, &server, email));
    let arguments = ["agent", "register", "--url", &server.url, "--email", "ada@example.com", "--json"];
    let registered = home.run(&arguments).json();
    home.run(&["agent", "register"]).refused(1, &["already has the agent", "--again"]);
    home.run(&["agent", "token"]).refused(5, &["run `attache agent claim`"]);
    let (attempt, code) = no_wait(&home, &[]);
    assert_eq!(registered["claim"]["user_code"], code.expose(), "no second link for nothing");
    assert_eq!(eve.complete(&attempt, &code).await.unwrap_err().code(), Some("email_mismatch"));
    home.run(&["agent", "claim", "--email", "eve@example.com"]).refused(1, &["registered for another person"]);
    home.run(&["agent", "claim", "--email", "nonsense"]).refused(2, &["--email"]);

    // Naming the person again gives a new link; the old one is void.
    let (newer, newer_code) = no_wait(&home, &["--email", "ada@example.com"]);
    assert_eq!(ada.complete(&attempt, &code).await.unwrap_err().code(), Some("expired_token"));
    ada.complete(&newer, &newer_code).await.unwrap();
    assert_eq!(home.run(&["agent", "claim", "--json"]).json()["claimed"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_claim_is_resumed_with_the_same_link() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = flow::person(&home, &server, "ada@example.com");
    home.run(&["agent", "register", "--url", &server.url]).said();
    let (mut claim, attempt, code) = claiming(&home, &[]).await;
    claim.signal("INT");
    assert_eq!(claim.exit().await.code(), Some(1));
    assert!(claim.stderr.text().contains("the link still works"), "{}", claim.stderr.text());
    assert_eq!(no_wait(&home, &[]), (attempt.clone(), code.clone()));
    ada.complete(&attempt, &code).await.unwrap();
    home.run(&["agent", "claim"]).said();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_claim_or_registration_is_reported() {
    let (home, url) = flow::at_fixed_address();
    let mut server = home.serve().await;
    home.run(&["agent", "register", "--url", &url]).said();
    let (mut claim, _, code) = claiming(&home, &[]).await;
    server.process.kill();
    flow::expire_rows(&home, "claim_attempts", "expires_at").await;
    let mut server = home.serve().await;
    assert_eq!(claim.exit().await.code(), Some(1));
    assert!(claim.stderr.text().contains("not confirmed in time"), "{}", claim.stderr.text());
    // The registration stays valid and accepts another claim, until it expires too.
    let (_, newer) = no_wait(&home, &[]);
    assert_ne!(newer, code);
    server.process.kill();
    // A link that still works outlives the claim token.
    flow::expire_rows(&home, "claim_attempts", "expires_at").await;
    flow::expire_rows(&home, "registrations", "claim_token_expires_at").await;
    let _server = home.serve().await;
    home.run(&["agent", "claim"]).refused(1, &["the registration has expired", "attache agent register --again"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burnt_claim_or_a_revoked_agent_is_reported() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = flow::person(&home, &server, "ada@example.com");
    home.run(&["agent", "register", "--url", &server.url]).said();
    let (mut claim, attempt, code) = claiming(&home, &[]).await;
    let wrong = Secret::presented(if code.expose() == "000000" { "000001" } else { "000000" });
    for _ in 0..5 {
        assert_eq!(ada.complete(&attempt, &wrong).await.unwrap_err().code(), Some("wrong_code"));
    }
    assert_eq!(claim.exit().await.code(), Some(1));
    assert!(claim.stderr.text().contains("the code was wrong too often"), "{}", claim.stderr.text());
    // The next one creates another link.
    let (mut claim, _, _) = claiming(&home, &[]).await;
    let id = flow::text(&home.run(&["agent", "show", "--json"]).json(), "registration_id");
    home.run(&["admin", "agent", "revoke", &id]).said();
    assert_eq!(claim.exit().await.code(), Some(1));
    assert!(claim.stderr.text().contains("attache agent register --again"), "{}", claim.stderr.text());
    let again = home.run(&["agent", "register", "--again", "--json"]).json();
    assert_ne!(again["registration_id"], id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_ends_is_renewed_without_a_person() {
    let home = Home::new();
    let server = home.serve().await;
    claimed(&home, &server).await;
    let first = home.run(&["agent", "token"]).said().to_owned();
    assert_eq!(home.run(&["agent", "token"]).said(), first, "a good one is not exchanged");
    flow::edit_profile(&home, |profile| profile["agent"]["token_expires"] = "2026-01-01T00:00:00.000Z".into());
    let second = home.run(&["agent", "token", "--json"]).json();
    assert_ne!(second["access_token"], first);
    assert_eq!(summary_status(&server, second["access_token"].as_str().unwrap()).await, 200);

    flow::edit_profile(&home, |profile| {
        profile["agent"]["token_expires"] = "2026-01-01T00:00:00.000Z".into();
        profile["agent"]["identity_assertion"] = "e30.e30.nonsense".into();
    });
    home.run(&["agent", "token"]).refused(1, &["invalid_grant", "attache agent register --again"]);
    flow::edit_profile(&home, |profile| {
        profile["agent"]["token_expires"] = "2999-01-01T00:00:00.000Z".into();
        profile["agent"]["access_token"] = "at_nonsense".into();
    });
    // The command requests a new token once, and the server refuses it.
    home.run(&["account"]).refused(1, &["invalid_grant"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_token_is_renewed_and_a_revoked_agent_is_reported() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = claimed(&home, &server).await;
    let token = home.run(&["agent", "token"]).said().to_owned();
    assert_eq!(home.run(&["agent", "revoke", "--json"]).json(), json!({ "token_revoked": true }));
    assert_eq!(summary_status(&server, &token).await, 401);
    assert!(home.run(&["agent", "show"]).said().contains("none; the next command gets one if it needs one"));
    assert!(home.run(&["agent", "revoke"]).said().contains("there is no access token"));
    let next = home.run(&["agent", "token"]).said().to_owned();
    assert_eq!(summary_status(&server, &next).await, 200);

    let id = flow::text(&home.run(&["agent", "show", "--json"]).json(), "registration_id");
    assert_eq!(home.run(&["agent", "revoke", "--registration", "--json"]).json(), json!({ "revoked": id }));
    assert_eq!(summary_status(&server, &next).await, 401);
    let agents = ada.account_summary().await.unwrap().sections.agents.unwrap().agents;
    assert!(agents[0].revoked_at.is_some());
    home.run(&["agent", "show"]).refused(5, &["attache agent register"]);
}

#[test]
fn without_an_agent_every_command_names_the_next_step() {
    let home = Home::new();
    for command in ["claim", "token", "revoke", "show"] {
        home.run(&["agent", command]).refused(5, &["run `attache agent register`"]);
    }
    home.run(&["agent", "register", "--url", "http://127.0.0.1:1"]).refused(7, &["cannot be reached"]);
    assert_eq!(home.run(&["profile", "list", "--json"]).json(), json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_was_ended_elsewhere_is_exchanged_for_the_next_one() {
    let home = Home::new();
    let server = home.serve().await;
    claimed(&home, &server).await;
    let end = async || {
        let token = home.run(&["agent", "token"]).said().to_owned();
        flow::form(&server, "revoke", &[("token", &token)]).await.expect(200);
        token
    };
    let first = end().await;
    assert!(home.run(&["account"]).said().contains("ada@example.com"));
    let second = end().await;
    let third = home.run(&["agent", "token"]).said().to_owned();
    assert!(first != second && second != third);
    assert_eq!(summary_status(&server, &third).await, 200);
}
