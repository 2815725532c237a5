//! `attache event send`: each event once, however it is interrupted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use domain::Rng;
use harness::upstream::{Reply, Script, TOKEN, Upstream};
use serde_json::{Value, json};

use blackbox::client::Client;
use blackbox::flow;
use blackbox::process::{Home, Server};
use harness::event::{Chain, Machine};

/// A server, and this computer registered with it.
pub async fn computer(home: &Home) -> (Server, Machine) {
    let server = home.serve().await;
    let machine = flow::machine(&server).await;
    flow::keep_profile(home, &server.url, Some(&machine), None);
    (server, machine)
}

/// A file with `count` events without ids.
pub fn file(home: &Home, name: &str, count: usize) -> String {
    let line = |nth| json!({ "event_type": "memory.stored", "payload": { "memory_id": format!("{name}{nth}") } });
    let lines: Vec<String> = (0..count).map(|nth| line(nth).to_string()).collect();
    write(home, name, &lines.join("\n"))
}

pub fn write(home: &Home, name: &str, text: &str) -> String {
    std::fs::write(home.dir.path().join(name), text).unwrap();
    name.to_owned()
}

/// The output, line by line.
pub fn printed(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

pub async fn log(server: &Server, machine: &Machine) -> Vec<Value> {
    let page = Client::new().get(&format!("{}/api/v1/activity?limit=500", server.url), machine).await.expect(200);
    page["events"].as_array().unwrap().clone()
}

/// Every place of the chain is taken once, from 0 on, by different events.
pub async fn assert_dense(server: &Server, machine: &Machine, count: usize) {
    let log = log(server, machine).await;
    let places: BTreeSet<u64> = log.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    let ids: BTreeSet<String> = log.iter().map(|event| flow::text(event, "event_id")).collect();
    assert_eq!((log.len(), ids.len()), (count, count));
    assert!(places.into_iter().eq(0..count as u64), "{log:?}");
}

pub fn head(home: &Home) -> PathBuf {
    flow::profile_folder(home).join("chain-svc-cli.json")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_the_arguments_goes_out_whole_and_is_proven() {
    let home = Home::new();
    let (server, machine) = computer(&home).await;
    let session = flow::uuid();
    let payload = r#"{"memory_id":"m1","content":"the key is under the mat"}"#;
    let arguments = ["event", "send", "--type", "memory.stored", "--payload", payload, "--consent-level", "full"];
    let scope = ["--project-id", "garden", "--session-uuid", &session, "--redacted", "--json"];
    let sent = home.run(&[&arguments[..], &scope].concat()).json();
    assert_eq!((&sent["line"], &sent["seq"], &sent["event_type"]), (&json!(1), &json!(0), &json!("memory.stored")));
    let proof = flow::proof(&server, &machine, &flow::text(&sent, "event_id")).await;
    assert_eq!(proof["receipt_id"], sent["receipt_id"]);
    let seen = &log(&server, &machine).await[0];
    assert_eq!(
        (&seen["consent_level"], &seen["redacted"], &seen["lane"]),
        (&json!("full"), &json!(true), &json!("memory"))
    );
    // For a person: a line for the event, and a sum.
    let output = home.run(&["event", "send", "--type", "llm.failed"]);
    let lines: Vec<&str> = output.said().lines().collect();
    assert!(lines[0].starts_with("sent ") && lines[0].contains("seq 1") && lines[0].contains("receipt "), "{output:?}");
    assert_eq!(lines[1..], ["1 sent"]);
    // The event declares the level that the person allows on this computer.
    assert_eq!(log(&server, &machine).await[0]["consent_level"], "metadata-only");
    // Another kind of agent has its own chain.
    let other = home.run(&["event", "send", "--type", "llm.failed", "--agent-id", "codex", "--json"]).json();
    assert_eq!(other["seq"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_event_is_reported_with_its_reason_and_does_not_move_the_head() {
    let home = Home::new();
    let (server, machine) = computer(&home).await;
    let text = [
        r#"{"event_type":"memory.stored","payload":{"content":"not allowed"}}"#,
        r#"{"event_type":"memory.dreamt","lane":"memory","payload":{}}"#,
        "",
        r#"{"event_type":"memory.stored","payload":{"memory_id":"m1"}}"#,
    ];
    let name = write(&home, "events.jsonl", &text.join("\n"));
    let output = home.run(&["event", "send", &name]);
    let lines: Vec<&str> = output.said().lines().collect();
    assert!(lines[0].starts_with("held ") && lines[0].contains("payload_invalid: /payload/content"), "{output:?}");
    assert!(lines[1].contains("unknown_event_type"), "{output:?}");
    assert!(lines[2].starts_with("sent ") && lines[2].contains("seq 0"), "{output:?}");
    assert_eq!(lines[3], "1 sent, 2 held");
    assert_dense(&server, &machine, 1).await;
    let output = home.run(&["event", "send", &name, "--json"]);
    output.said();
    let printed = printed(&output.stdout);
    assert_eq!(printed.iter().map(|line| line["line"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 4]);
    assert_eq!((&printed[0]["held"], &printed[2]["seq"]), (&json!(true), &json!(1)));
    assert!(flow::text(&printed[0], "warning").starts_with("payload_invalid: "));
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_lines_are_all_named_before_anything_is_sent() {
    let home = Home::new();
    let (server, machine) = computer(&home).await;
    let good = r#"{"event_type":"memory.stored","payload":{}}"#;
    let bad = [good, r#"{"event_type":"memory.stored"}"#, "", r#"{"event_type":"x","payload":{"a":{"b":1,"b":2}}}"#];
    let name = write(&home, "bad.jsonl", &bad.join("\n"));
    let output = home.run(&["event", "send", &name]);
    let reasons = [
        "nothing was sent: 2 lines",
        "bad.jsonl:2: missing field `payload`",
        "bad.jsonl:4: duplicate_key at /payload/a/b",
    ];
    output.refused(1, &reasons);
    assert_eq!(output.stdout, "");
    home.run(&["event", "send", "nowhere.jsonl"]).refused(1, &["nowhere.jsonl: "]);
    home.run(&["event", "send", "--type", "memory.stored", "--payload", "[]"])
        .refused(1, &["--payload: not_an_object"]);
    home.run(&["event", "send", "--type", "memory.dreamt"])
        .refused(1, &["\"memory.dreamt\" is not a registered event type", "with --lane"]);
    home.run(&["event", "send"]).refused(2, &["FILE"]);
    home.run(&["event", "send", &name, "--type", "memory.stored"]).refused(2, &["cannot be used with"]);
    home.run(&["event", "send", &name, "--agent-id", "../x"]).refused(2, &["--agent-id"]);
    assert!(log(&server, &machine).await.is_empty());
    // Lines of standard input are sent as they arrive, up to the first invalid one.
    let output =
        home.run_with_input(&["event", "send", "-", "--json"], format!("{good}\n\n{good}\n{{}}\n{good}\n").as_bytes());
    output.refused(
        1,
        &["standard input:4: missing field `event_type`", "line 4 was not sent", "of the lines before it, 2 were"],
    );
    assert_eq!(
        printed(&output.stdout).iter().map(|line| line["line"].clone()).collect::<Vec<_>>(),
        [json!(1), json!(3)]
    );
    assert_dense(&server, &machine, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_without_a_credential_names_the_next_step() {
    let home = Home::new();
    let send = || home.run(&["event", "send", "--type", "memory.stored"]);
    send().refused(5, &["this computer is not registered", "attache machine register"]);
    let (server, machine) = computer(&home).await;
    let stranger = Machine { secret: format!("msk_{}", "A".repeat(43)), ..machine };
    flow::keep_profile(&home, &server.url, Some(&stranger), None);
    send().refused(5, &["machine_unknown", "attache machine register"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_command_continues_after_the_server_was_down() {
    let (home, _) = flow::at_fixed_address();
    let (mut server, machine) = computer(&home).await;
    let name = file(&home, "events.jsonl", 3);
    server.process.kill();
    let arguments = ["event", "send", &name, "--consent-level", "full", "--lane", "memory", "--json"];
    let output = home.run(&arguments);
    output.refused(
        7,
        &[
            "cannot be reached",
            "check that the server is running",
            "3 of 3 events were not sent (lines 1 to 3)",
            "the same command",
        ],
    );
    let pending: Value = serde_json::from_slice(&std::fs::read(head(&home)).unwrap()).unwrap();
    let server = home.serve().await;
    // Another event is sent in between: the unfinished one is sent first.
    let output = home.run(&["event", "send", "--type", "llm.failed", "--json"]);
    output.said();
    let said = printed(&output.stdout);
    assert_eq!((&said[0]["event_id"], &said[0]["line"]), (&pending["pending"]["event_id"], &Value::Null));
    assert_eq!((&said[1]["event_type"], &said[1]["seq"]), (&json!("llm.failed"), &json!(1)));
    let output = home.run(&arguments);
    output.said();
    assert_eq!(
        printed(&output.stdout).iter().map(|line| line["line"].clone()).collect::<Vec<_>>(),
        [json!(2), json!(3)]
    );
    assert_dense(&server, &machine, 4).await;
    // A complete file is sent again on the next call.
    home.run(&arguments).said();
    assert_dense(&server, &machine, 7).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn however_often_the_sender_is_killed_every_line_is_sent_once() {
    let seed = std::env::var("ATTACHE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(11);
    let rng = Rng::seeded(seed);
    let home = Home::new();
    let (server, machine) = computer(&home).await;
    // More than the killed senders send: a file that is complete would be sent again.
    let lines = 400;
    let name = file(&home, "events.jsonl", lines);
    let (mut receipts, mut ids) = (BTreeMap::new(), BTreeMap::new());
    let mut kills = 0;
    loop {
        let mut sender = home.start(&["event", "send", &name, "--json"]);
        let time_limit = usize::try_from(rng.below(9)).unwrap();
        let is_alive = time_limit == 0 || sender.stdout.reach(time_limit).await;
        if is_alive && kills < 12 {
            sender.kill();
            kills += 1;
        } else {
            assert_eq!(sender.exit().await.code(), Some(0), "seed {seed}: {}", sender.stderr.text());
        }
        let said = sender.stdout.text();
        // The last line may be cut.
        for line in said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let (id, receipt) = (flow::text(&line, "event_id"), flow::text(&line, "receipt_id"));
            let previous = receipts.insert(id.clone(), receipt.clone());
            assert!(previous.is_none_or(|previous| previous == receipt), "seed {seed}: two receipts of one event");
            let previous = ids.insert(line["line"].as_u64().unwrap(), id.clone());
            assert!(previous.is_none_or(|previous| previous == id), "seed {seed}: two events of one line");
        }
        if !is_alive || kills >= 12 && sender.exit().await.code() == Some(0) {
            break;
        }
    }
    assert!(kills > 3, "seed {seed}: it was killed only {kills} times");
    assert_dense(&server, &machine, lines).await;
    for event in log(&server, &machine).await {
        let printed = receipts.get(event["event_id"].as_str().unwrap());
        assert!(printed.is_none_or(|printed| *printed == flow::text(&event, "receipt_id")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_senders_at_once_wait_for_each_other() {
    let home = Home::new();
    let (server, machine) = computer(&home).await;
    let files = [file(&home, "a", 25), file(&home, "b", 25)];
    let mut senders: Vec<_> = files.iter().map(|name| home.start(&["event", "send", name, "--json"])).collect();
    let streamed: String = (0..25).map(|_| "{\"event_type\":\"llm.failed\",\"payload\":{}}\n").collect();
    home.run_with_input(&["event", "send", "-", "--json"], streamed.as_bytes()).said();
    for sender in &mut senders {
        assert_eq!(sender.exit().await.code(), Some(0), "{}", sender.stderr.text());
        assert_eq!(printed(&sender.stdout.text()).len(), 25);
    }
    assert_dense(&server, &machine, 75).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_or_stale_chain_head_is_corrected_from_the_conflict_response() {
    let home = Home::new();
    let (server, machine) = computer(&home).await;
    let send = || home.run(&["event", "send", "--type", "memory.stored", "--json"]).json();
    assert_eq!((send()["seq"].clone(), send()["moved"].clone()), (json!(0), Value::Null));
    let old = std::fs::read(head(&home)).unwrap();
    send();
    std::fs::remove_file(head(&home)).unwrap();
    let healed = send();
    assert_eq!((&healed["seq"], &healed["moved"]), (&json!(3), &json!(true)));
    std::fs::write(head(&home), old).unwrap();
    let output = home.run(&["event", "send", "--type", "memory.stored"]);
    assert!(output.said().contains("continuing at epoch 0, seq 4"), "{output:?}");
    assert_dense(&server, &machine, 5).await;
    // A file that is no head is not overwritten.
    std::fs::write(head(&home), "{").unwrap();
    home.run(&["event", "send", "--type", "memory.stored"]).refused(1, &["chain-svc-cli.json cannot be read"]);
    assert_eq!(std::fs::read_to_string(head(&home)).unwrap(), "{");
    // Registered again as another computer, it starts a new chain.
    std::fs::remove_file(head(&home)).unwrap();
    send();
    let again = flow::machine(&server).await;
    flow::keep_profile(&home, &server.url, Some(&again), None);
    assert_eq!((send()["seq"].clone(), send()["seq"].clone()), (json!(0), json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflicting_event_id_is_reported_and_not_resent() {
    let home = Home::new();
    let (server, machine) = computer(&home).await;
    let id = flow::uuid();
    let send = |arguments: &[&str]| {
        let output =
            home.run(&[&["event", "send", "--type", "memory.stored", "--event-id", &id, "--json"], arguments].concat());
        output.json()
    };
    let first = send(&[]);
    assert_eq!((&first["event_id"], &first["seq"]), (&json!(id), &json!(0)));
    assert_eq!(send(&[])["known"], true);
    assert_dense(&server, &machine, 1).await;
    let output = home.run(&["event", "send", "--type", "memory.stored", "--event-id", &id]);
    assert_eq!(output.said().lines().last(), Some("0 sent, 1 already recorded"));
    assert_eq!(home.run(&["event", "send", "--type", "memory.stored", "--json"]).json()["seq"], 1);
}

/// A server with a statistics service that fails as scripted.
pub async fn over(upstream: &Upstream) -> (Home, Server, Machine) {
    let home =
        Home::new().set("upstream.url", &upstream.url()).set("upstream.token", TOKEN).set("upstream.timeout", "2s");
    let (server, machine) = computer(&home).await;
    (home, server, machine)
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_between_sending_and_the_answer_it_sends_the_same_bytes_again() {
    let upstream = Upstream::start().await;
    let (home, _server, _) = over(&upstream).await;
    let id = flow::uuid();
    upstream.for_event(&id, Script::hang().having_stored());
    let arguments = ["event", "send", "--type", "memory.stored", "--event-id", &id, "--json"];
    let asked = upstream.requests().len();
    let mut sender = home.start(&arguments);
    upstream.wait_for_requests(asked + 1).await;
    let pending: Value = serde_json::from_slice(&std::fs::read(head(&home)).unwrap()).unwrap();
    sender.kill();
    assert_eq!(sender.stdout.text(), "");
    let receipt = upstream.taken()[&id].receipt_id.clone();
    let printed = home.run(&arguments).json();
    assert_eq!((&printed["receipt_id"], &printed["line"]), (&json!(receipt), &json!(1)));
    let bodies: Vec<_> = upstream.requests().into_iter().skip(asked).map(|request| request.body).collect();
    assert!(
        bodies.len() >= 2
            && bodies.iter().all(|body| body == pending["pending"]["sealed"].as_str().unwrap().as_bytes())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_response_is_retried_automatically() {
    let upstream = Upstream::start().await;
    let (home, _server, _) = over(&upstream).await;
    let id = flow::uuid();
    upstream.for_event(&id, Script::reset().having_stored());
    upstream.for_event(&id, Script::broken(503));
    let printed = home.run(&["event", "send", "--type", "memory.stored", "--event-id", &id, "--json"]).json();
    assert_eq!(printed["receipt_id"], json!(upstream.taken()[&id].receipt_id));
}

#[tokio::test(flavor = "multi_thread")]
async fn sending_ends_and_keeps_the_event_if_the_expected_position_is_refused_too() {
    let upstream = Upstream::start().await;
    let (home, _server, machine) = over(&upstream).await;
    let chain = Chain::new(&machine);
    let id = flow::uuid();
    let elsewhere = json!({
        "error": "chain_conflict",
        "expected": { "chain_epoch": 3, "seq": 0, "prev": "GENESIS" },
        "received": { "chain_epoch": 0, "seq": chain.seq, "prev": "GENESIS" },
    });
    for _ in 0..2 {
        upstream.for_event(&id, Script::reply(Reply::json(409, &elsewhere)));
    }
    let arguments = ["event", "send", "--type", "memory.stored", "--event-id", &id, "--json"];
    let output = home.run(&arguments);
    output.refused(
        1,
        &["chain_conflict (409)", "was refused there too", "event pending --drop", "is stored and sent first"],
    );
    // The same command continues with it, at that position.
    let printed = home.run(&arguments).json();
    assert_eq!((&printed["event_id"], &printed["chain_epoch"], &printed["seq"]), (&json!(id), &json!(3), &json!(0)));
    assert_eq!(upstream.taken().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_upstream_is_reported_with_the_stored_line() {
    let upstream = Upstream::start().await;
    let (home, server, machine) = over(&upstream).await;
    let ids = [flow::uuid(), flow::uuid(), flow::uuid()];
    let later = Reply::json(429, &json!({ "error": "rate_limited" })).header("Retry-After", "3600");
    upstream.for_event(&ids[1], Script::reply(later));
    let line = |id: &String| format!("{}\n", json!({ "event_type": "memory.stored", "payload": {}, "event_id": id }));
    let output =
        home.run_with_input(&["event", "send", "-", "--json"], ids.iter().map(line).collect::<String>().as_bytes());
    output.refused(
        75,
        &["rate_limited (429)", "line 2 is stored and sent first", "the lines after it were not sent", "1 were"],
    );
    let output = home.run_with_input(&["event", "send", "-", "--json"], line(&ids[2]).as_bytes());
    output.said();
    let printed = printed(&output.stdout);
    assert_eq!((&printed[0]["event_id"], &printed[0]["line"]), (&json!(ids[1]), &Value::Null));
    assert_eq!(
        (&printed[1]["event_id"], &printed[1]["line"], &printed[1]["seq"]),
        (&json!(ids[2]), &json!(1), &json!(2))
    );
    assert_eq!(upstream.taken().len(), 3);
    drop((server, machine));
}
