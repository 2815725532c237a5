//! `attache event send` after an interruption: no sent line is sent twice, and no line is lost.

use harness::upstream::{Reply, Script, Upstream};
use serde_json::{Value, json};

use crate::event_send::{assert_dense, computer, file, head, log, over, printed, write};
use blackbox::flow;
use blackbox::process::Home;

fn line(memory: &str, id: Option<&str>) -> String {
    let mut line = json!({ "event_type": "memory.stored", "payload": { "memory_id": memory } });
    if let Some(id) = id {
        line["event_id"] = json!(id);
    }
    format!("{line}\n")
}

fn later() -> Script {
    Script::reply(Reply::json(429, &json!({ "error": "rate_limited" })).header("Retry-After", "3600"))
}

/// The reported lines: none for an event of an earlier run.
fn numbers(stdout: &str) -> Vec<Option<u64>> {
    printed(stdout).iter().map(|line| line["line"].as_u64()).collect()
}

/// The events in the statistics service, ordered by id.
fn taken(upstream: &Upstream) -> Vec<String> {
    let memory = |body: &[u8]| flow::text(&serde_json::from_slice::<Value>(body).unwrap()["payload"], "memory_id");
    let mut taken: Vec<String> = upstream.taken().values().map(|taken| memory(&taken.body)).collect();
    taken.sort();
    taken
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_grew_is_continued_at_its_first_unsent_line() {
    let upstream = Upstream::start().await;
    let (home, _server, _) = over(&upstream).await;
    let ids = [flow::uuid(), flow::uuid()];
    for id in &ids {
        upstream.for_event(id, later());
    }
    let begin = line("1", None) + &line("2", None);
    let name = write(&home, "events.jsonl", &(begin.clone() + &line("a mistake", Some(&ids[0]))));
    let arguments = ["event", "send", name.as_str(), "--json"];
    home.run(&arguments).refused(75, &["1 of 3 events was not sent (line 3)"]);
    // The pending line is changed: the original is sent again, since it may have arrived.
    write(&home, &name, &(begin.clone() + &line("3", Some(&ids[1]))));
    let output = home.run(&arguments);
    output.refused(75, &["1 of 3 events was not sent (line 3)"]);
    assert_eq!(numbers(&output.stdout), [None]);
    // A line is added after the one in flight.
    write(&home, &name, &(begin + &line("3", Some(&ids[1])) + &line("4", None)));
    let output = home.run(&arguments);
    output.said();
    assert_eq!(numbers(&output.stdout), [Some(3), Some(4)]);
    assert_eq!(taken(&upstream), ["1", "2", "3", "4", "a mistake"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_whose_last_line_another_command_sent_is_complete_and_may_be_sent_again() {
    let (home, _) = flow::at_fixed_address();
    let (mut server, machine) = computer(&home).await;
    let name = file(&home, "events.jsonl", 1);
    server.process.kill();
    let arguments = ["event", "send", &name, "--consent-level", "full", "--lane", "memory"];
    home.run(&arguments).refused(7, &["1 of 1 events was not sent (line 1)"]);
    let server = home.serve().await;
    let output = home.run(&["event", "send", "--type", "llm.failed"]);
    assert!(output.said().contains("(of an earlier run)"), "{output:?}");
    let output = home.run(&arguments);
    assert_eq!(output.said(), "resuming after 1 of 1 events, which were sent before\n0 sent");
    assert_dense(&server, &machine, 2).await;
    assert!(home.run(&arguments).said().ends_with("\n1 sent"));
    assert_dense(&server, &machine, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn types_and_sizes_are_checked_before_the_first_line_is_sent() {
    let home = Home::new();
    let (server, machine) = computer(&home).await;
    // The line is short enough to be read, and with the envelope around it too long to be sent.
    let room = 1024 * 1024 - 100;
    let lines =
        [line("1", None), line("2", None).replace("stored", "dreamt"), "\n".into(), line(&"x".repeat(room), None)];
    let name = write(&home, "events.jsonl", &lines.concat());
    let reasons = [
        "nothing was sent: 2 lines cannot be sent",
        "line 2: \"memory.dreamt\" is not",
        "line 4: the sealed event has",
    ];
    let output = home.run(&["event", "send", &name]);
    output.refused(1, &reasons);
    assert_eq!(output.stdout, "");
    // An event from another source does not block the next one either.
    let output = home.run_with_input(&["event", "send", "-"], lines[3].as_bytes());
    output.refused(1, &["the sealed event has", "line 1 was not sent"]);
    assert!(log(&server, &machine).await.is_empty());
    home.run(&["event", "send", "--type", "llm.failed"]).said();
}

/// Makes the pending event larger than any server accepts.
fn swell(home: &Home) {
    let mut value: Value = serde_json::from_slice(&std::fs::read(head(home)).unwrap()).unwrap();
    let sealed = value["pending"]["sealed"].as_str().unwrap();
    value["pending"]["sealed"] = json!(format!("{}{sealed}", " ".repeat(1024 * 1024)));
    std::fs::write(head(home), value.to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_waits_is_shown_and_given_up_by_hand() {
    let (home, _) = flow::at_fixed_address();
    let (mut server, machine) = computer(&home).await;
    let pending = |arguments: &[&str]| home.run(&[&["event", "pending"], arguments].concat());
    assert_eq!(pending(&[]).said(), "no pending event on this chain");
    assert_eq!(pending(&["--drop", "--json"]).json(), json!({ "pending": null, "dropped": false }));
    let id = flow::uuid();
    server.process.kill();
    home.run(&["event", "send", "--type", "llm.failed", "--event-id", &id, "--lane", "llm", "--consent-level", "full"])
        .refused(7, &["cannot be reached", &id]);
    let waits = json!({ "event_id": id, "event_type": "llm.failed", "chain_epoch": 0, "seq": 0 });
    assert_eq!(pending(&["--json"]).json(), json!({ "pending": waits, "dropped": false }));
    assert!(pending(&[]).said().contains("--drop drops it"));
    assert_eq!(pending(&["--agent-id", "svc-desktop"]).said(), "no pending event on this chain");
    assert!(pending(&["--drop"]).said().contains("is dropped"));
    let server = home.serve().await;
    let sent = home.run(&["event", "send", "--type", "llm.failed", "--json"]).json();
    assert_eq!((&sent["seq"], sent["event_id"] == json!(id)), (&json!(0), false));
    assert_dense(&server, &machine, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_too_large_for_the_server_is_in_the_way_of_none_after_it() {
    let (home, _) = flow::at_fixed_address();
    let (mut server, machine) = computer(&home).await;
    let name = file(&home, "events.jsonl", 1);
    let arguments = ["event", "send", &name, "--consent-level", "full", "--lane", "memory", "--json"];
    for (round, then) in [["event", "send", "-", "--json"], ["event", "send", &name, "--json"]].into_iter().enumerate()
    {
        server.process.kill();
        home.run(&arguments).refused(7, &["1 of 1 events was not sent"]);
        swell(&home);
        server = home.serve().await;
        if round == 0 {
            // It belongs to an earlier command: it is reported, and the command's own event is sent.
            let output = home.run_with_input(&then, line("own", None).as_bytes());
            output.refused(1, &["not recorded: 1"]);
            let printed = printed(&output.stdout);
            assert_eq!((&printed[0]["failed"], &printed[0]["line"]), (&json!(true), &Value::Null));
            assert_eq!((&printed[1]["line"], &printed[1]["seq"]), (&json!(1), &json!(0)));
        } else {
            home.run(&arguments)
                .refused(1, &["(413)", "too large for this server", "1 of 1 events was not sent (line 1)"]);
        }
        assert_eq!(home.run(&arguments).json()["seq"], round + 1);
    }
    assert_dense(&server, &machine, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_commands_are_two_events_unless_they_name_the_event_id() {
    let upstream = Upstream::start().await;
    let (home, _server, _) = over(&upstream).await;
    let arguments = ["event", "send", "--type", "memory.stored", "--payload", r#"{"memory_id":"beat"}"#, "--json"];
    upstream.next(later());
    let output = home.run(&arguments);
    output.refused(75, &["rate_limited", "is stored and sent first by the next `attache event send`", "--event-id"]);
    let output = home.run(&arguments);
    output.said();
    assert_eq!(numbers(&output.stdout), [None, Some(1)]);
    assert_eq!(taken(&upstream), ["beat", "beat"]);
    // The hint works: with the id it is the same event.
    upstream.next(later());
    home.run(&arguments).refused(75, &["is stored"]);
    let value: Value = serde_json::from_slice(&std::fs::read(head(&home)).unwrap()).unwrap();
    let id = flow::text(&value["pending"], "event_id");
    let named = [&arguments[..], &["--event-id", &id]].concat();
    assert_eq!(home.run(&named).json()["event_id"], id);
    assert_eq!(taken(&upstream), ["beat", "beat", "beat"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_another_event_has_is_no_event_that_was_sent() {
    let home = Home::new();
    let (server, machine) = computer(&home).await;
    let id = flow::uuid();
    let name = write(&home, "one.jsonl", &line("first", Some(&id)));
    home.run(&["event", "send", &name, "--consent-level", "full"]).said();
    // The same event is recognised, also at another time and with another consent level.
    assert_eq!(home.run(&["event", "send", &name, "--json"]).json()["known"], true);
    // An explicit level makes it a different event.
    home.run(&["event", "send", &name, "--consent-level", "off"]).refused(1, &["not recorded: 1"]);
    // Another one is not, and the lines after it are sent.
    let name = write(&home, "two.jsonl", &(line("second", Some(&id)) + &line("third", None)));
    let output = home.run(&["event", "send", &name]);
    output.refused(1, &["not recorded: 1"]);
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert!(lines[0].starts_with("taken") && lines[0].contains("needs a new id"), "{output:?}");
    assert_eq!(lines[2], "1 sent, 1 failed");
    let output = home.run(&["event", "send", "--type", "llm.failed", "--event-id", &id, "--json"]);
    output.refused(1, &["not recorded: 1"]);
    assert_eq!((printed(&output.stdout)[0]["failed"].clone(), printed(&output.stdout).len()), (json!(true), 1));
    assert_dense(&server, &machine, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_id_of_an_invisible_event_does_not_count_as_sent() {
    let upstream = Upstream::start().await;
    let (home, _server, _) = over(&upstream).await;
    let id = flow::uuid();
    let arguments =
        ["event", "send", "--type", "memory.stored", "--payload", r#"{"memory_id":"m"}"#, "--event-id", &id];
    home.run(&arguments).said();
    // The statistics service of this server returns no readable proof.
    let output = home.run(&arguments);
    output.refused(1, &["not recorded: 1"]);
    assert!(output.stdout.contains("cannot be compared"), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_exit_code_reports_held_events_on_request() {
    let home = Home::new();
    let (_server, _) = computer(&home).await;
    let arguments = ["event", "send", "--type", "memory.dreamt", "--lane", "memory"];
    assert!(home.run(&arguments).said().ends_with("0 sent, 1 held"));
    let output = home.run(&[&arguments[..], &["--fail-held"]].concat());
    output.refused(1, &["held: 1"]);
    assert!(output.stdout.ends_with("0 sent, 1 held\n"), "{output:?}");
    home.run(&["event", "send", "--type", "llm.failed", "--fail-held"]).said();
}
