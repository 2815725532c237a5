//! The process dies at a chosen place, as by `kill -9`, and restarts on the same data.

use bytes::Bytes;
use domain::log_part::LogPart;
use serde_json::json;

use blackbox::client::{Client, Credential, Response, attempt_of};
use blackbox::eventually;
use blackbox::flow;
use blackbox::process::{Home, Server};
use blackbox::receiver::Receiver;
use harness::event::{Chain, Machine};

use crate::notified;

/// Number of events before the process dies.
const BEFORE: usize = 3;

/// Sends events until no response is received; returns the events with their responses, the last one without.
async fn send_until_death(server: &mut Server, machine: &Machine, hopeless: bool) -> Vec<(Bytes, Option<Response>)> {
    let (client, mut chain, mut sent) = (Client::new(), Chain::new(machine), Vec::new());
    loop {
        let event =
            if hopeless { chain.peek_with(|event| event["event_type"] = json!("memory.dreamt")) } else { chain.next() };
        let body = Bytes::from(event.to_string());
        let response = client.event(&server.url, machine, body.clone()).await;
        let dead = response.is_none();
        sent.push((body, response));
        if dead {
            break;
        }
        assert!(sent.len() <= BEFORE, "it should have died by now");
    }
    assert_eq!(server.process.exit().await.code(), None, "it ended by a signal of its own");
    sent
}

/// The server dies at `place` while it accepts an event, and keeps its promises. `there`: whether the unanswered event was stored.
async fn dies_while_forwarding(place: &str, there: bool) {
    let home = Home::new();
    let mut server = home.serve_failing(&format!("{place}={BEFORE}*off->1*return")).await;
    let machine = flow::machine(&server).await;
    let sent = send_until_death(&mut server, &machine, false).await;
    assert_eq!(sent.len(), BEFORE + 1);

    let (server, client) = (home.serve().await, Client::new());
    let activity = async || {
        let page = client.get(&format!("{}/api/v1/activity", server.url), &machine).await.expect(200);
        page["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| (flow::text(event, "event_id"), flow::text(event, "receipt_id")))
            .collect::<Vec<_>>()
    };
    assert_eq!(activity().await.len(), BEFORE + usize::from(there), "{place}");
    let mut receipts = Vec::new();
    for (body, response) in &sent {
        let receipt = client.event(&server.url, &machine, body.clone()).await.unwrap().receipt();
        if let Some(response) = response {
            assert_eq!(response.receipt(), receipt, "{place}");
        }
        let id = flow::text(&serde_json::from_slice(body).unwrap(), "event_id");
        flow::proof(&server, &machine, &id).await;
        receipts.push((id, receipt));
    }
    receipts.reverse();
    assert_eq!(activity().await, receipts, "{place}: each once, and in order");
}

/// Dies at `place` while it holds an event.
async fn dies_while_holding(place: &str, there: bool) {
    let home = Home::new();
    let mut server = home.serve_failing(&format!("{place}={BEFORE}*off->1*return")).await;
    let machine = flow::machine(&server).await;
    let sent = send_until_death(&mut server, &machine, true).await;

    let listed = || home.run(&["admin", "held", "list", "--json"]).json().as_array().unwrap().len();
    assert_eq!(listed(), BEFORE + usize::from(there), "{place}");
    let server = home.serve().await;
    for (body, response) in &sent {
        let warning = Client::new().event(&server.url, &machine, body.clone()).await.unwrap().warning();
        if let Some(response) = response {
            assert_eq!(response.warning(), warning);
        }
    }
    assert_eq!(listed(), BEFORE + 1, "{place}: each once");
}

#[tokio::test(flavor = "multi_thread")]
async fn before_an_event_goes_to_the_statistics_service() {
    dies_while_forwarding("intake.worker", false).await;
    dies_while_forwarding("forward.before", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn before_the_log_commits() {
    dies_while_forwarding("append.before", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_log_committed() {
    dies_while_forwarding("append.after", true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn before_the_sender_is_answered() {
    dies_while_forwarding("forward.after", true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn before_a_held_event_is_committed() {
    dies_while_holding("hold.before", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_held_event_is_committed() {
    dies_while_holding("hold.after", true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn before_a_claim_is_committed_and_the_person_tries_again() {
    let home = Home::new().set("http.base_url", "http://attache.example.com");
    let bind = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let home = home.set("http.bind", &bind.to_string());
    let mut server = home.serve_failing("claims.complete=1*return").await;
    server.url = format!("http://{bind}");
    let person = flow::session(&home, "ada@example.com");
    let registered = flow::identity(&server, &json!({ "type": "anonymous" })).await;
    let claim_token = flow::text(&registered, "claim_token");
    let claim = flow::claim(&server, &claim_token).await;
    let body = json!({ "claim_attempt_token": attempt_of(&claim), "user_code": claim["user_code"] });
    let client = Client::new();
    let complete = |url: &str| {
        let url = format!("{url}/api/v1/agent-auth/claim/complete");
        client.request(reqwest::Method::POST, &url, &person).json(&body)
    };
    assert!(client.try_send(complete(&server.url)).await.is_none());
    assert_eq!(server.process.exit().await.code(), None);

    let mut server = home.serve().await;
    server.url = format!("http://{bind}");
    flow::token_by_claim(&server, &claim_token).await.refused(400, "authorization_pending");
    client.try_send(complete(&server.url)).await.unwrap().expect(200);
    let tokens = flow::token_by_claim(&server, &claim_token).await.expect(200);
    let activity = format!("{}/api/v1/activity", server.url);
    client.get(&activity, Credential::Bearer(flow::text(&tokens, "access_token"))).await.expect(200);
}

/// Dies at `place` while a person approves. `attached`: whether the approval was stored.
async fn dies_while_approving(place: &str, attached: bool) {
    let home = Home::new();
    let mut server = home.serve_failing(&format!("{place}=1*return")).await;
    let machine = flow::machine(&server).await;
    let person = flow::session(&home, "ada@example.com");
    let (device_code, user_code) = flow::device_code(&server, &machine).await;
    flow::device_token(&server, &device_code).await.refused(400, "authorization_pending");
    assert!(flow::device_approve(&server, &person, &user_code).await.is_none(), "{place}");
    assert_eq!(server.process.exit().await.code(), None);

    let server = home.serve().await;
    let polled = flow::device_token(&server, &device_code).await;
    let again = flow::device_approve(&server, &person, &user_code).await.unwrap();
    if attached {
        assert_eq!(polled.expect(200)["status"], "claimed", "{place}");
        again.refused(410, "code_consumed");
    } else {
        polled.refused(400, "authorization_pending");
        assert_eq!(again.expect(200), json!({ "ok": true }), "{place}");
    }
    assert_eq!(flow::device_token(&server, &device_code).await.expect(200)["status"], "claimed");
}

#[tokio::test(flavor = "multi_thread")]
async fn before_an_approval_is_committed_and_the_person_tries_again() {
    dies_while_approving("devices.approve", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_approval_was_committed_and_the_computer_learns_it() {
    dies_while_approving("devices.approved", true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tree_grows_after_a_death_of_the_sequencer() {
    let home = Home::new();
    // Registered before: on a busy machine the passes would be over by then.
    let machine = flow::machine(&home.serve().await).await;
    // Dies during a pass while events arrive.
    let mut server = home.serve_failing("sequence.pass=4*off->1*return").await;
    let client = Client::new();
    let mut chain = Chain::new(&machine);
    let mut taken = Vec::new();
    loop {
        let event = chain.next();
        let Some(response) = client.event(&server.url, &machine, event.to_string().into()).await else { break };
        taken.push((event, response.receipt()));
    }
    assert_eq!(server.process.exit().await.code(), None);
    let server = home.serve().await;
    for (event, receipt) in taken {
        let proof = flow::proof(&server, &machine, event["event_id"].as_str().unwrap()).await;
        assert_eq!(flow::text(&proof, "receipt_id"), receipt);
    }
}

/// Sends at most [`BEFORE`] events, until one has no response. Returns the bodies of all sent ones.
async fn sent_until_death(server: &Server, machine: &Machine, chain: &mut Chain) -> Vec<Bytes> {
    let client = Client::new();
    let mut sent = Vec::new();
    for _ in 0..BEFORE {
        let body = Bytes::from(chain.next().to_string());
        let response = client.event(&server.url, machine, body.clone()).await;
        sent.push(body);
        if response.is_none() {
            break;
        }
    }
    sent
}

/// Dies while the meter counts; every event is still counted once.
async fn dies_while_counting(place: &str) {
    let home = Home::new().set("plans.FREE.memory_events", "10");
    let mut server = home.serve_failing(&format!("{place}=1*return")).await;
    let (machine, client) = (flow::machine(&server).await, Client::new());
    let mut chain = Chain::new(&machine);
    // The meter dies at the first event that it counts, perhaps before all three were sent.
    let sent = sent_until_death(&server, &machine, &mut chain).await;
    assert_eq!(server.process.exit().await.code(), None, "{place}");

    let server = home.serve().await;
    for body in &sent {
        client.event(&server.url, &machine, body.clone()).await.unwrap().receipt();
    }
    for _ in sent.len()..BEFORE {
        client.event(&server.url, &machine, Bytes::from(chain.next().to_string())).await.unwrap().receipt();
    }
    let left = async || {
        let bar = client.get(&format!("{}/api/v1/usage/bar", server.url), &machine).await.expect(200);
        bar["memory"]["percent_left"].as_f64().unwrap()
    };
    assert!((left().await - 70.0).abs() < f64::EPSILON, "{place}");
    // After all events are counted, no uncounted event remains, and the usage is the same.
    let file = home.data().join("attache.db");
    let store = store::Store::open(&store::DatabaseSettings::default(), &file).await.unwrap();
    eventually("everything is counted", async || {
        (store.usage_counted(LogPart::FIRST).await.unwrap() == BEFORE as u64).then_some(())
    })
    .await;
    assert!((left().await - 70.0).abs() < f64::EPSILON, "{place}");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn before_usage_is_counted() {
    dies_while_counting("meter.count").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_usage_was_counted() {
    dies_while_counting("meter.counted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_consent_change_was_committed_and_before_it_was_forwarded() {
    let home = Home::new();
    let mut server = home.serve_failing("outbox.before=1*return").await;
    let (machine, client) = (flow::machine(&server).await, Client::new());
    let person = flow::session(&home, "ada@example.com");
    let account = flow::text(&home.run(&["admin", "account", "list", "--json"]).json()[0], "user_account_id");
    home.run(&["admin", "machine", "attach", "--machine-uuid", &machine.uuid, "--account", &account]).said();
    let post = |url: &str| {
        client
            .request(reqwest::Method::POST, &format!("{url}/api/v1/consent"), &person)
            .json(&json!({ "level": "off" }))
    };
    assert!(client.try_send(post(&server.url)).await.is_none());
    assert_eq!(server.process.exit().await.code(), None);

    let server = home.serve().await;
    let activity = format!("{}/api/v1/activity", server.url);
    let forwarded =
        async || client.get(&activity, person.clone()).await.expect(200)["events"].as_array().unwrap().len();
    blackbox::eventually("the change is forwarded", async || (forwarded().await == 1).then_some(())).await;
    assert_eq!(client.try_send(post(&server.url)).await.unwrap().expect(200)["written"], 0);
    assert_eq!(forwarded().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_epoch_is_refused_and_started_again() {
    for place in ["epoch.begun", "epoch.recorded"] {
        let home = Home::new();
        let server = home.serve().await;
        let machine = flow::machine(&server).await;
        let event = Chain::new(&machine).next();
        flow::event(&server, &machine, &event).await.receipt();
        let id = flow::text(&event, "event_id");
        flow::proof(&server, &machine, &id).await;
        drop(server);
        let mut dying = home.command(&["serve", "--new-log"]);
        let died = dying.env("FAILPOINTS", format!("{place}=return")).output().unwrap();
        assert!(!died.status.success(), "{place}: {died:?}");
        home.run(&["serve"]).refused(1, &["signed by another key", "attache serve --new-log"]);
        let mut process = home.start(&["serve", "--new-log"]);
        process.ready_line().await;
        process.signal("TERM");
        assert_eq!(process.exit().await.code(), Some(0));
        let server = home.serve().await;
        assert!(flow::text(&flow::proof(&server, &machine, &id).await, "vkey").starts_with("attache/log/epoch-"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_webhook_was_sent_and_before_that_is_written() {
    let (receiver, address) = Receiver::start().await;
    let home = notified::home(address);
    let mut server = home.serve_failing("webhook.sent=1*return").await;
    let request = notified::test(&home, &server, address).await;
    // The server may die before it answers.
    if let Some(response) = Client::new().try_send(request).await {
        assert!(response.status < 300, "{response:?}");
    }
    assert_eq!(server.process.exit().await.code(), None, "it ended by a signal of its own");
    assert_eq!(receiver.at("ok").len(), 1);

    let _server = home.serve().await;
    let sent = receiver.wait("ok", 2).await;
    assert_eq!((&sent[0].id, &sent[0].body), (&sent[1].id, &sent[1].body));
}

/// The numbers of events in the mails of the rule `Told`.
fn told(home: &Home) -> Vec<usize> {
    let Ok(entries) = std::fs::read_dir(home.data().join("outbox")) else { return Vec::new() };
    let mails = entries.filter_map(|entry| std::fs::read_to_string(entry.unwrap().path()).ok());
    let number = |mail: String| mail.split_once("Subject: Told: ")?.1.split(' ').next()?.parse().ok();
    mails.filter_map(number).collect()
}

/// Dies while the message of a rule is written; each event is still in exactly one message.
async fn dies_while_matching(place: &str) {
    let home = Home::new().set("rules.message_every", "1s");
    let mut server = home.serve_failing(&format!("{place}=1*return")).await;
    let (machine, client) = (flow::machine(&server).await, Client::new());
    let person = flow::session(&home, "ada@example.com");
    let (_, user_code) = flow::device_code(&server, &machine).await;
    flow::device_approve(&server, &person, &user_code).await.unwrap().expect(200);
    let rule = json!({ "name": "Told", "event_type": "memory.*" });
    client.post(&format!("{}/api/v1/rules", server.url), person, &rule).await.expect(201);
    let mut chain = Chain::new(&machine);
    // The reader dies at the first events that it reads, perhaps before all were sent.
    let sent = sent_until_death(&server, &machine, &mut chain).await;
    assert_eq!(server.process.exit().await.code(), None, "{place}");

    let server = home.serve().await;
    for body in &sent {
        client.event(&server.url, &machine, body.clone()).await.unwrap().receipt();
    }
    eventually("every event is told", async || (told(&home).iter().sum::<usize>() >= sent.len()).then_some(())).await;
    // A further event is told after all others.
    client.event(&server.url, &machine, Bytes::from(chain.next().to_string())).await.unwrap().receipt();
    eventually("the last event is told", async || (told(&home).iter().sum::<usize>() > sent.len()).then_some(())).await;
    assert_eq!(told(&home).iter().sum::<usize>(), sent.len() + 1, "{place}: {:?}", told(&home));
}

#[tokio::test(flavor = "multi_thread")]
async fn before_matches_of_rules_are_written() {
    dies_while_matching("rule.write").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_matches_of_rules_were_written() {
    dies_while_matching("rule.written").await;
}

/// The server dies between the archive and the database, and loses no body.
async fn dies_while_archiving(place: &str) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}", folder.path().display());
    let home = Home::new().set("log.archive.url", &url).set("log.archive.keep", "0s");
    let server = home.serve().await;
    let machine = flow::machine(&server).await;
    let mut chain = Chain::new(&machine);
    let mut ids = Vec::new();
    let mut send = async |server: &Server, count: usize| {
        for _ in 0..count {
            let event = chain.next();
            flow::event(server, &machine, &event).await.receipt();
            ids.push(flow::text(&event, "event_id"));
        }
        ids.clone()
    };
    send(&server, 255).await;
    drop(server);
    let mut server = home.serve_failing(&format!("{place}=1*return")).await;
    let ids = send(&server, 1).await;
    assert_eq!(server.process.exit().await.code(), None, "{place}: it ended by a signal of its own");
    let server = home.serve().await;
    let removed = "attache_archive_removed 256";
    eventually("the bodies have left the database", async || {
        let metrics = Client::new().get(&format!("{}/metrics", server.operator), Credential::None).await;
        String::from_utf8_lossy(&metrics.body).contains(removed).then_some(())
    })
    .await;
    for id in &ids {
        flow::proof(&server, &machine, id).await;
    }
    home.run(&["doctor", "--deep"]).said();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_death_between_archive_and_database_loses_no_body() {
    for place in ["archive.put", "archive.remove"] {
        dies_while_archiving(place).await;
    }
}
