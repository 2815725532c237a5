//! An actor panics in a running server: other actors continue, the supervisor restarts it, and no acknowledged data is lost.

use serde_json::{Value, json};

use blackbox::client::{Client, Credential, Response, attempt_of};
use blackbox::eventually;
use blackbox::flow;
use blackbox::process::{Home, Server};
use blackbox::receiver::Receiver;
use harness::event::{Chain, Machine};

use crate::notified;

/// A server with these failpoints and actors that restart quickly.
async fn world(failpoints: &str) -> (Home, Server, Machine) {
    // Tests ask until a state is reached, so no number of attempts may decide how long they may ask.
    let home = Home::new()
        .set("actors.restart.backoff_min", "10ms")
        .set("actors.restart.backoff_max", "20ms")
        .set("claims.starts_per_hour", "1000000")
        .set("limits.claim_starts_per_minute", "0");
    let server = home.serve_failing(failpoints).await;
    let machine = flow::machine(&server).await;
    (home, server, machine)
}

/// An actor of the tree that the operator sees.
async fn node(server: &Server, name: &str) -> Value {
    let tree = Client::new().get(&format!("{}/actors", server.operator), Credential::None).await.expect(200);
    let found = tree["children"].as_array().unwrap().iter().find(|child| child["name"] == name).cloned();
    found.unwrap_or_else(|| panic!("no {name} in {tree}"))
}

/// Waits until the actor was restarted this number of times and runs.
async fn restarted(server: &Server, name: &str, times: u64) {
    eventually("the actor comes back", async || {
        let node = node(server, name).await;
        (node["restarts"] == times && node["status"] == "running").then(|| {
            let error = node["failures"][0]["error"].as_str().unwrap();
            // The panic message is lost if the actor dies before its supervisor knows that it started.
            assert!(error.contains("failpoint") || error.contains("ended as soon as"), "{node}");
        })
    })
    .await;
    Client::new().get(&format!("{}/readyz", server.operator), Credential::None).await.expect(200);
}

#[track_caller]
fn crashed(response: &Response) {
    let body = response.refused(424, "temporarily_unavailable");
    assert_eq!(body["retryable"], true, "{body}");
    assert!(response.headers.contains_key("retry-after"), "{response:?}");
}

/// Sends an event until it is answered 202.
async fn insist(server: &Server, machine: &Machine, event: &Value) -> Response {
    eventually("it is answered 202", async || {
        let response = flow::event(server, machine, event).await;
        if response.status != 202 {
            crashed(&response);
        }
        (response.status == 202).then_some(response)
    })
    .await
}

async fn ids(server: &Server, machine: &Machine) -> Vec<String> {
    let page = Client::new().get(&format!("{}/api/v1/activity", server.url), machine).await.expect(200);
    page["events"].as_array().unwrap().iter().map(|event| flow::text(event, "event_id")).collect()
}

/// Events of one chain; the second one causes the panic, after which `actor` restarts.
async fn an_event_meets_a_panic(place: &str, actor: Option<&str>) {
    let (_home, server, machine) = world(&format!("{place}=1*off->1*panic")).await;
    let mut chain = Chain::new(&machine);
    let [first, second, third] = [chain.next(), chain.next(), chain.next()];
    let receipt = flow::event(&server, &machine, &first).await.receipt();
    crashed(&flow::event(&server, &machine, &second).await);
    let resent = insist(&server, &machine, &second).await.receipt();
    assert_eq!(insist(&server, &machine, &second).await.receipt(), resent);
    insist(&server, &machine, &third).await.receipt();
    assert_eq!(insist(&server, &machine, &first).await.receipt(), receipt);
    assert_eq!(ids(&server, &machine).await.len(), 3, "{place}");
    if let Some(actor) = actor {
        restarted(&server, actor, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intake_worker_is_replaced_and_the_event_counts_once() {
    an_event_meets_a_panic("intake.worker", None).await;
    an_event_meets_a_panic("forward.before", None).await;
    an_event_meets_a_panic("forward.after", None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_committer_of_the_log_restarts_and_the_event_counts_once() {
    an_event_meets_a_panic("append.before", Some("intake")).await;
    an_event_meets_a_panic("append.after", Some("intake")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_committer_of_held_events_restarts_while_others_are_forwarded() {
    for place in ["hold.before", "hold.after"] {
        let (home, server, machine) = world(&format!("{place}=1*panic")).await;
        let mut chain = Chain::new(&machine);
        let hopeless = chain.peek_with(|event| event["event_type"] = json!("memory.dreamt"));
        crashed(&flow::event(&server, &machine, &hopeless).await);
        flow::event(&server, &machine, &chain.next()).await.receipt();
        insist(&server, &machine, &hopeless).await.warning();
        assert_eq!(home.run(&["admin", "held", "list", "--json"]).json().as_array().unwrap().len(), 1, "{place}");
        restarted(&server, "hold", 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sequencer_restarts_and_events_get_their_positions() {
    let (_home, server, machine) = world("sequence.pass=3*panic").await;
    let event = Chain::new(&machine).next();
    flow::event(&server, &machine, &event).await.receipt();
    flow::proof(&server, &machine, event["event_id"].as_str().unwrap()).await;
    restarted(&server, "sequence", 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watch_restarts_and_notices_changes_of_operators() {
    let (home, server, _) = world("watch.pass=2*panic").await;
    restarted(&server, "watch", 2).await;
    let next = home.run(&["keys", "rotate", "--json"]).json();
    eventually("the new keys are published", async || {
        let jwks =
            Client::new().get(&format!("{}/.well-known/jwks.json", server.url), Credential::None).await.expect(200);
        let keys = jwks["keys"].as_array().unwrap();
        (keys.len() == 3 && keys.iter().any(|key| key["kid"] == next["active"])).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_janitor_restarts_without_affecting_others() {
    let (_home, server, machine) = world("janitor.pass=2*panic").await;
    flow::event(&server, &machine, &Chain::new(&machine).next()).await.receipt();
    restarted(&server, "janitor", 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_meter_restarts_and_continues_to_count() {
    let (_home, server, machine) = world("meter.pass=2*panic").await;
    flow::event(&server, &machine, &Chain::new(&machine).next()).await.receipt();
    restarted(&server, "meter", 2).await;
    let bar = Client::new().get(&format!("{}/api/v1/usage/bar", server.url), &machine).await.expect(200);
    assert_eq!(bar["memory"]["percent_left"], 99.9);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_follower_of_sessions_restarts_and_adds_what_waits() {
    let (_home, server, machine) = world("agent_sessions.pass=2*panic").await;
    let event = Chain::new(&machine).next_with(|event| {
        event["scope"]["session_uuid"] = json!("019b76da-a800-7a67-8a14-94a3f41b0634");
    });
    flow::event(&server, &machine, &event).await.receipt();
    restarted(&server, "agent_sessions", 2).await;
    let address = format!("{}/api/v1/activity/sessions", server.url);
    eventually("the session is listed", async || {
        let page = Client::new().get(&address, &machine).await.expect(200);
        (page["sessions"][0]["events"] == 1).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reader_of_recorded_events_restarts() {
    let (_home, server, _) = world("rule.pass=2*panic").await;
    restarted(&server, "rule", 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_anchor_restarts() {
    let (_home, server, _) = world("anchor.pass=2*panic").await;
    restarted(&server, "anchor", 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_and_budget_restart() {
    let (_home, server, machine) = world("node.pass=1*panic;budget.pass=1*panic").await;
    restarted(&server, "node", 1).await;
    restarted(&server, "budget", 1).await;
    flow::event(&server, &machine, &Chain::new(&machine).next()).await.receipt();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mailer_restarts_and_sends_what_waits() {
    let (home, server, machine) = world("mail.look=1*panic").await;
    let person = flow::session(&home, "ada@example.com");
    let (_, user_code) = flow::device_code(&server, &machine).await;
    flow::device_approve(&server, &person, &user_code).await.unwrap().expect(200);
    restarted(&server, "mail", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sender_of_webhooks_restarts_and_sends_what_waits() {
    let (receiver, address) = Receiver::start().await;
    let home = notified::home(address);
    let home = home.set("actors.restart.backoff_min", "10ms").set("actors.restart.backoff_max", "20ms");
    let server = home.serve_failing("webhook.pass=2*panic").await;
    let sent = Client::new().try_send(notified::test(&home, &server, address).await).await.unwrap();
    assert!(sent.status < 300, "{sent:?}");
    restarted(&server, "webhook", 2).await;
    receiver.wait("ok", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_was_committed_before_a_panic_is_complete() {
    let (home, server, _) = world("claims.completed=1*panic").await;
    let person = flow::session(&home, "ada@example.com");
    let claim_token = registered(&server).await;
    let claim = start(&server, &claim_token).await.expect(200)["claim"].clone();
    let (attempt, code) = (attempt_of(&claim), flow::text(&claim, "user_code"));
    crashed(&flow::complete(&server, &person, &attempt, &code).await);
    // The person's page sends it again.
    flow::complete(&server, &person, &attempt, &code).await.expect(200);
    flow::token_by_claim(&server, &claim_token).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn presence_and_outbox_restart() {
    let (_home, server, machine) = world("presence.pass=1*panic;outbox.pass=1*panic").await;
    restarted(&server, "presence", 1).await;
    restarted(&server, "outbox", 1).await;
    flow::event(&server, &machine, &Chain::new(&machine).next()).await.receipt();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consent_change_whose_forwarding_crashed_is_written_and_forwarded_later() {
    let (_home, server, machine) = world("outbox.before=1*panic").await;
    let url = format!("{}/api/v1/consent", server.url);
    let set = async || Client::new().post(&url, &machine, &json!({ "level": "off" })).await;
    assert_eq!(set().await.refused(502, "consent_audit_forward_failed")["written"], 1);
    assert_eq!(set().await.expect(200)["written"], 0);
    assert_eq!(Client::new().get(&url, &machine).await.expect(200)["level"], "off");
}

/// Registers an agent; returns its claim token.
async fn registered(server: &Server) -> String {
    flow::text(&flow::identity(server, &json!({ "type": "anonymous" })).await, "claim_token")
}

async fn start(server: &Server, claim_token: &str) -> Response {
    let url = format!("{}/api/v1/agent-auth/claim", server.url);
    Client::new().post(&url, Credential::None, &json!({ "claim_token": claim_token })).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_ceremony_that_crashed_continues_from_its_row() {
    let (home, server, _) = world("claims.exchange=1*panic;claims.complete=1*panic").await;
    let person = flow::session(&home, "ada@example.com");
    let claim_token = registered(&server).await;
    let claim = start(&server, &claim_token).await.expect(200)["claim"].clone();
    crashed(&flow::token_by_claim(&server, &claim_token).await);
    flow::token_by_claim(&server, &claim_token).await.refused(400, "authorization_pending");
    let (attempt, code) = (attempt_of(&claim), flow::text(&claim, "user_code"));
    // The crash does not count as a wrong code: the same code is still valid.
    crashed(&flow::complete(&server, &person, &attempt, &code).await);
    flow::complete(&server, &person, &attempt, &code).await.expect(200);
    flow::token_by_claim(&server, &claim_token).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_poller_that_crashed_continues_from_its_row_without_affecting_others() {
    let (_home, server, machine) = world("devices.poll=1*off->1*panic").await;
    let other = Client::new().machine(&server.url, "tz4a98xxat96iws9zmbrgj3a", &flow::uuid()).await;
    let ((crashing, _), (untouched, _)) =
        (flow::device_code(&server, &machine).await, flow::device_code(&server, &other).await);
    flow::device_token(&server, &untouched).await.refused(400, "authorization_pending");
    crashed(&flow::device_token(&server, &crashing).await);
    flow::device_token(&server, &crashing).await.refused(400, "authorization_pending");
    // The time of its last poll is not lost.
    assert_eq!(flow::device_token(&server, &untouched).await.refused(400, "slow_down")["interval"], 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_during_a_panic_applies_once_or_may_be_repeated() {
    let (home, server, machine) = world("devices.approve=1*panic;devices.approved=1*panic").await;
    let person = flow::session(&home, "ada@example.com");
    let (device_code, user_code) = flow::device_code(&server, &machine).await;
    let approve = async || flow::device_approve(&server, &person, &user_code).await.unwrap();
    crashed(&approve().await);
    flow::device_token(&server, &device_code).await.refused(400, "authorization_pending");
    // The next one is committed, and no response is sent.
    crashed(&approve().await);
    let claimed = flow::device_token(&server, &device_code).await.expect(200);
    assert_eq!(claimed["status"], "claimed");
    approve().await.refused(410, "code_consumed");
    assert_eq!(flow::device_token(&server, &device_code).await.expect(200), claimed);
}

/// A value that `attache admin actor show` prints.
fn fact(shown: &Value, name: &str) -> Value {
    shown["facts"].as_array().unwrap().iter().find(|fact| fact["name"] == name).unwrap().clone()
}

/// The request that failed leads to its key, which has a row and no actor.
fn the_key_is_shown(home: &Home, crashed: &Value, request: &str) {
    let key = flow::text(crashed, "key");
    let of_request = |id: &str| home.run(&["admin", "actor", "crashed", "--request", id, "--json"]).json();
    assert_eq!((&of_request(request)[0]["key"], of_request(&key)), (&json!(key), json!([])));
    let shown = home.run(&["admin", "actor", "show", "claims", &key, "--json"]).json();
    assert_eq!((&shown["entries"][0]["crashes"], &shown["actor"]), (&json!(3), &Value::Null), "{shown}");
    assert_eq!(fact(&shown, "registration_type")["row"], "anonymous");
}

/// The actor of a registration has the values of the row.
fn the_actor_is_shown(home: &Home, key: &str, secret: &str) {
    let shown = home.run(&["admin", "actor", "show", "claims", key, "--json"]).json();
    assert_eq!((&shown["actor"]["busy"], &shown["entries"]), (&json!(false), &json!([])), "{shown}");
    let state = fact(&shown, "attempt_state");
    assert_eq!((&state["actor"], &state["row"], &state["differs"]), (&json!("live"), &json!("live"), &json!(false)));
    assert!(!shown.to_string().contains(secret), "it shows no secret");
    assert!(home.run(&["admin", "actor", "show", "claims", key]).said().contains("registration_type"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_keeps_crashing_is_quarantined_alone() {
    let (home, server, machine) = world("claims.exchange=panic").await;
    let identity = flow::identity(&server, &json!({ "type": "anonymous" })).await;
    let [poison, poison_id] = ["claim_token", "registration_id"].map(|name| flow::text(&identity, name));
    let healthy = registered(&server).await;
    for _ in 0..3 {
        let response = flow::token_by_claim(&server, &poison).await;
        crashed(&response);
        assert_eq!(response.json()["reason"], "crashed", "{response:?}");
        start(&server, &healthy).await.expect(200);
    }
    // Retried: its family learns of the crash a moment after the caller.
    let response = eventually("it is quarantined", async || {
        let response = start(&server, &poison).await;
        (response.status == 424).then_some(response)
    })
    .await;
    crashed(&response);
    assert_eq!(response.json()["reason"], "quarantined", "{response:?}");
    let lines = server.process.stderr.text();
    let named = |what: &str| lines.lines().any(|line| line.contains(what) && line.contains(&poison_id));
    assert!(named("a per-key actor crashed") && named("is quarantined"), "the lines name {poison_id}: {lines}");
    assert!(!lines.contains(&poison), "and not its secret");
    start(&server, &healthy).await.expect(200);
    flow::event(&server, &machine, &Chain::new(&machine).next()).await.receipt();
    let claims = node(&server, "claims").await;
    let times = &claims["times"];
    assert!(
        times["handled_per_minute"].as_u64().unwrap() > 0 && times["deepest_queue"].as_u64().unwrap() > 0,
        "{claims}"
    );
    let pass = &node(&server, "janitor").await["pass"];
    assert!(pass["took_ms"].is_u64() && pass["next_in_ms"].as_u64().unwrap() > 0, "{pass}");
    assert_eq!(
        (&claims["quarantined"], &claims["restarts"], &claims["status"]),
        (&json!(1), &json!(0), &json!("running"))
    );

    let crashed = home.run(&["admin", "actor", "crashed", "--json"]).json();
    assert_eq!((crashed.as_array().unwrap().len(), &crashed[0]["kind"]), (1, &json!("claims")), "{crashed}");
    assert_eq!((&crashed[0]["key"], &crashed[0]["crashes"]), (&json!(poison_id), &json!(3)), "{crashed}");
    let request = flow::text(&crashed[0], "request_id");
    assert!(named(&format!("request.id=\"{request}\"")), "the request of the last crash, {request}: {lines}");
    let (error, until) = (flow::text(&crashed[0], "error"), flow::text(&crashed[0], "quarantined_until"));
    assert!(error.contains("claims.exchange") && until.ends_with('Z'), "{crashed}");
    the_key_is_shown(&home, &crashed[0], &request);
    let release = || home.run(&["admin", "actor", "release", "claims", &poison_id, "--reason", "it is mended"]);
    let is_served = async || (start(&server, &poison).await.status == 200).then_some(());
    assert!(release().said().contains("is released"));
    eventually("the node released it", is_served).await;
    the_actor_is_shown(&home, &poison_id, &poison);
    release().refused(1, &["in no quarantine"]);
    home.run(&["admin", "actor", "release", "mail", &poison_id, "--reason", "why"])
        .refused(2, &["claims, devices, batches"]);

    // An operator quarantines a key with a healthy actor, which ends.
    let quarantine = |more: &[&str]| {
        let command = ["admin", "actor", "quarantine", "claims", &poison_id, "--reason", "a look at its row"];
        home.run(&[&command, more].concat())
    };
    assert!(quarantine(&["--for", "10m"]).said().starts_with(&format!("claims:{poison_id} is refused until ")));
    quarantine(&[]).refused(1, &["is paused until", "a look at its row"]);
    let response = eventually("the node refuses it", async || {
        let response = start(&server, &poison).await;
        (response.status == 424).then_some(response)
    })
    .await;
    assert_eq!(
        (response.json()["reason"].as_str(), &response.headers["retry-after"]),
        (Some("quarantined"), &"60".parse().unwrap())
    );
    let keys = home.run(&["admin", "actor", "crashed", "--json"]).json();
    assert_eq!((&keys[0]["node"], &keys[0]["reason"]), (&json!(null), &json!("a look at its row")), "{keys}");
    assert!(release().said().contains("is released"));
    eventually("the node released it", is_served).await;
    let restart = home.run(&["admin", "actor", "restart", "claims", &poison_id, "--reason", "its row was mended"]);
    assert!(restart.said().contains("is restarted"));
    eventually("its actor ended", async || {
        let lines = server.process.stderr.text();
        lines
            .lines()
            .any(|line| line.contains("an operator restarts an actor") && line.contains(&poison_id))
            .then_some(())
    })
    .await;
    eventually("its next actor answers", is_served).await;
    let target = format!("claims:{poison_id}");
    let acts = home.run(&["admin", "act", "list", "--target", &target, "--json"]).json();
    let acts: Vec<_> = acts.as_array().unwrap().iter().map(|act| (&act["act"], &act["outcome"])).collect();
    assert_eq!(
        json!(acts),
        json!([
            ("key_restart", "applied"),
            ("key_release", "applied"),
            ("key_quarantine", "refused"),
            ("key_quarantine", "applied"),
            ("key_release", "refused"),
            ("key_release", "applied")
        ])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_restarts_ends_the_process_with_70() {
    for actor in ["janitor", "sequence"] {
        let home = Home::new().set("actors.restart.restarts_max", "3").set("actors.restart.backoff_min", "10ms");
        let mut process = home.spawn(&format!("{actor}.pass=panic"));
        assert_eq!(process.exit().await.code(), Some(70), "{}", process.stderr.text());
        assert!(
            process.stderr.text().contains(&format!("attache: actor \"{actor}\" failed too often")),
            "{}",
            process.stderr.text()
        );
        // The service manager starts it afresh, on the same data.
        let server = home.serve().await;
        let machine = flow::machine(&server).await;
        flow::event(&server, &machine, &Chain::new(&machine).next()).await.receipt();
    }
}
