//! `attache serve`: ready, drained, ended at once, and back on the same data.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use harness::upstream::{Answer as Script, TOKEN, Upstream};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::client::{Answer, Client, Credential, eventually};
use crate::event::{Chain, Machine};
use crate::flow;
use crate::process::{Home, Server};

#[tokio::test(flavor = "multi_thread")]
async fn it_says_one_line_when_it_is_ready_and_then_it_is() {
    let home = Home::new();
    let mut server = home.serve().await;
    let client = Client::new();
    client.get(&format!("{}/healthz", server.operator), Credential::None).await.expect(200);
    let ready = client.get(&format!("{}/readyz", server.operator), Credential::None).await.expect(200);
    assert_eq!((&ready["status"], &ready["store"], &ready["draining"]), (&"ready".into(), &"ok".into(), &false.into()));
    let link =
        flow::identity(&server, &serde_json::json!({ "type": "service_auth", "login_hint": "ada@example.com" })).await;
    assert!(flow::text(&link["claim"], "verification_uri").starts_with(&format!("{}/claim", server.url)));
    server.process.signal("TERM");
    let status = server.process.exit().await;
    assert_eq!(status.code(), Some(0), "{}", server.process.stderr.text());
    assert_eq!(server.process.stdout.text().lines().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn serving_is_the_default_and_the_base_url_is_what_it_shows() {
    let home = Home::new().set("http.base_url", "https://attache.example.com");
    let mut process = home.spawn("");
    let line = process.ready_line().await;
    assert!(line.starts_with("attache is ready at https://attache.example.com (operator: http://127.0.0.1:"), "{line}");
    process.signal("INT");
    assert_eq!(process.exit().await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_in_use_is_named_with_its_knob() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for knob in ["http.bind", "admin.bind"] {
        Home::new().set(knob, &address).run(&["serve"]).refused(1, &[knob, &address]);
    }
}

#[test]
fn a_database_that_cannot_be_reached_is_refused_with_its_cause() {
    let home = Home::new().set("database.url", "postgres://nobody@127.0.0.1:1/none");
    for command in [&["serve"][..], &["migrate"], &["admin", "account", "list"], &["keys", "list"]] {
        home.run(command).refused(1, &["cannot be opened", "Connection refused"]);
    }
    let doctor = home.run(&["doctor"]);
    assert!(doctor.stdout.contains("Connection refused") && doctor.code == Some(1), "{doctor:?}");
    assert!(!doctor.stdout.contains("attache migrate"), "nothing is to be migrated: {doctor:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_the_store_cannot_answer_leaves_a_line_with_the_cause() {
    let home = Home::new();
    let server = home.serve().await;
    let machine = flow::machine(&home, &server).await;
    flow::change_tables(&home.data().join("attache.db"), "ALTER TABLE machines RENAME TO gone").await;
    let answer = Client::new().get(&format!("{}/api/v1/activity", server.url), &machine).await;
    answer.refused(424, "temporarily_unavailable");
    eventually("the cause is in the log", async || {
        let lines = server.process.stderr.text();
        let line = lines.lines().find(|line| line.contains("the store could not answer a request"))?;
        assert!(line.contains("no such table"), "{line}");
        Some(())
    })
    .await;
}

/// A server over a statistics service that was asked and has not answered yet.
struct Busy {
    home: Home,
    upstream: Arc<Upstream>,
    server: Server,
    machine: Machine,
    body: Bytes,
    answer: JoinHandle<Option<Answer>>,
}

async fn busy(script: Script, drain_deadline: &str) -> Busy {
    let upstream = Arc::new(Upstream::start().await);
    let home = Home::new()
        .set("upstream.url", &upstream.url())
        .set("upstream.token", TOKEN)
        .set("upstream.timeout", "10m")
        .set("actors.intake.ask_deadline", "10m")
        .set("shutdown.drain_deadline", drain_deadline);
    let server = home.serve().await;
    let client = Client::new();
    let machine = client.machine(&server.url, "tz4a98xxat96iws9zmbrgj3a", &flow::uuid()).await;
    let event = Chain::new(&machine).next();
    upstream.for_event(flow::text(&event, "event_id"), script);
    let body = Bytes::from(event.to_string());
    let (url, sender, sent) = (server.url.clone(), machine.clone(), body.clone());
    let answer = tokio::spawn(async move { client.event(&url, &sender, sent).await });
    upstream.wait_for_requests(1).await;
    Busy { home, upstream, server, machine, body, answer }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_progress_is_finished_and_nothing_new_begins() {
    let mut busy = busy(Script::late(Duration::from_millis(700)), "10m").await;
    busy.server.process.signal("TERM");
    let address = busy.server.url.strip_prefix("http://").unwrap();
    eventually("nobody listens any more", async || TcpStream::connect(address).await.is_err().then_some(())).await;
    let operator = format!("{}/readyz", busy.server.operator);
    let unready = Client::new().get(&operator, Credential::None).await.expect(503);
    assert_eq!((&unready["draining"], &unready["status"]), (&true.into(), &"unready".into()));
    let receipt = busy.answer.await.unwrap().unwrap().receipt();
    assert_eq!(busy.server.process.exit().await.code(), Some(0), "{}", busy.server.process.stderr.text());
    assert_eq!(busy.upstream.taken().values().next().unwrap().receipt_id, receipt);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_it_at_once() {
    let mut busy = busy(Script::hang().having_stored(), "10m").await;
    busy.server.process.signal("TERM");
    eventually("it drains", async || busy.server.process.stderr.text().contains("draining").then_some(())).await;
    busy.server.process.signal("TERM");
    assert_eq!(busy.server.process.exit().await.code(), Some(1));
    assert!(busy.server.process.stderr.text().contains("second signal"));
    // Nobody was told that it is safe, so it is sent again, and counts once.
    assert!(busy.answer.await.unwrap().is_none_or(|answer| answer.status == 424));
    let server = busy.home.serve().await;
    let receipt = Client::new().event(&server.url, &busy.machine, busy.body).await.unwrap().receipt();
    assert_eq!(busy.upstream.taken().values().next().unwrap().receipt_id, receipt);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_finish_in_time_is_cut_off() {
    let mut busy = busy(Script::hang(), "400ms").await;
    busy.server.process.signal("TERM");
    assert_eq!(busy.server.process.exit().await.code(), Some(1));
    assert!(
        busy.server.process.stderr.text().contains("shutdown.drain_deadline"),
        "{}",
        busy.server.process.stderr.text()
    );
    assert!(busy.answer.await.unwrap().is_none_or(|answer| answer.status == 424));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_kill_the_next_one_goes_on_with_the_same_data() {
    let home = Home::new().set("http.base_url", "https://attache.example.com");
    let bind = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    // With a base URL the line does not tell the port, so it is chosen here.
    let home = home.set("http.bind", &bind.to_string());
    let at_home = |mut server: Server| {
        server.url = format!("http://{bind}");
        server
    };
    let mut server = at_home(home.serve().await);
    let person = flow::session(&home, "ada@example.com");
    let machine = flow::machine(&home, &server).await;
    let (agent, tokens) = flow::agent(&server, &person).await;
    let event = Chain::new(&machine).next();
    let receipt = flow::event(&server, &machine, &event).await.receipt();
    let waiting =
        flow::identity(&server, &serde_json::json!({ "type": "service_auth", "login_hint": "ada@example.com" })).await;
    let vkey = flow::vkey(&server).await;
    server.process.kill();

    let server = at_home(home.serve().await);
    assert_eq!(flow::vkey(&server).await, vkey);
    assert_eq!(flow::event(&server, &machine, &event).await.receipt(), receipt);
    let page = Client::new().get(&format!("{}/api/v1/activity", server.url), &machine).await.expect(200);
    assert_eq!(page["events"].as_array().unwrap().len(), 1);
    // The agent, its token and its assertion.
    let token = Credential::Bearer(flow::text(&tokens, "access_token"));
    Client::new().get(&format!("{}/api/v1/activity", server.url), token).await.expect(200);
    flow::token_by_assertion(&server, &flow::text(&tokens, "identity_assertion")).await.expect(200);
    let agents = home.run(&["admin", "agent", "list", "--json"]).json();
    assert!(agents.as_array().unwrap().iter().any(|listed| listed["id"] == agent && listed["status"] == "claimed"));
    // A claim that was shown to a person before the kill is completed after it.
    let claim_token = flow::text(&waiting, "claim_token");
    flow::token_by_claim(&server, &claim_token).await.refused(400, "authorization_pending");
    let attempt = flow::attempt_of(&waiting["claim"]);
    flow::complete(&server, &person, &attempt, &flow::text(&waiting["claim"], "user_code")).await.expect(200);
    flow::token_by_claim(&server, &claim_token).await.expect(200);
}
