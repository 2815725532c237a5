//! `attache event tail`: new events, the newest last.

use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::agent;
use blackbox::eventually;
use blackbox::flow;
use blackbox::process::{Home, Server};
use harness::event::Machine;

async fn computer(home: &Home) -> (Server, Machine) {
    let server = home.serve().await;
    let machine = flow::machine(&server).await;
    flow::keep_profile(home, &server.url, Some(&machine), None);
    (server, machine)
}

/// Sends an event; returns its id.
fn send(home: &Home, arguments: &[&str]) -> String {
    let sent = home.run(&[&["event", "send", "--json"], arguments].concat()).json();
    flow::text(&sent, "event_id")
}

fn ids(stdout: &str) -> Vec<String> {
    let line = |line| serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    stdout.lines().map(|text| flow::text(&line(text), "event_id")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn tailing_prints_existing_events_first_and_follows_until_interrupted() {
    let home = Home::new();
    let (_server, _) = computer(&home).await;
    let mut sent: Vec<String> = (0..3).map(|_| send(&home, &["--type", "memory.stored"])).collect();
    let mut tail = home.start(&["event", "tail", "--json"]);
    assert!(tail.stdout.reach(3).await);
    sent.push(send(&home, &["--type", "llm.failed"]));
    assert!(tail.stdout.reach(4).await);
    sent.push(send(&home, &["--type", "memory.stored", "--payload", r#"{"content":"not allowed"}"#]));
    assert!(tail.stdout.reach(5).await);
    tail.signal("INT");
    assert_eq!(tail.exit().await.code(), Some(0), "{}", tail.stderr.text());
    assert_eq!(ids(&tail.stdout.text()), sent);
    let held: Value = serde_json::from_str(tail.stdout.text().lines().last().unwrap()).unwrap();
    assert_eq!((&held["held"], &held["reason"]), (&json!(true), &json!("payload_invalid")));
    assert_eq!(tail.stderr.text(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn tailing_starts_at_the_given_time_and_ends_after_a_count() {
    let home = Home::new();
    let (_server, _) = computer(&home).await;
    let name = home.dir.path().join("many");
    std::fs::write(&name, "{\"event_type\":\"memory.stored\",\"payload\":{}}\n".repeat(250)).unwrap();
    home.run(&["event", "send", "many"]).said();
    let llm = send(&home, &["--type", "llm.failed"]);
    let tail = |arguments: &[&str]| home.run(&[&["event", "tail", "--json"], arguments].concat());
    // All events, over several pages, the oldest first.
    let all = tail(&["--since", "0", "--count", "251"]);
    let all = ids(all.said());
    assert_eq!((all.len(), all.last()), (251, Some(&llm)));
    assert_eq!(ids(tail(&["--lines", "4", "--count", "3"]).said()), all[247..250]);
    assert_eq!(ids(tail(&["--count", "1"]).said()), all[241..242]);
    assert_eq!(ids(tail(&["--lane", "llm", "--count", "1"]).said()), std::slice::from_ref(&llm));
    let table = home.run(&["event", "tail", "--lines", "1", "--count", "1"]);
    assert!(
        table.said().contains("Called a model · failed")
            && table.said().contains(&llm)
            && table.said().contains("seq 250")
    );
    tail(&["--lane", "dream"]).refused(2, &["--lane"]);
    tail(&["--since", "0", "--lines", "1"]).refused(2, &["cannot be used with"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_is_waited_for_and_one_that_was_never_there_is_not() {
    let (home, _) = flow::at_fixed_address();
    let (mut server, _) = computer(&home).await;
    send(&home, &["--type", "memory.stored"]);
    let mut tail = home.start(&["event", "tail", "--json"]);
    assert!(tail.stdout.reach(1).await);
    server.process.kill();
    assert!(tail.stderr.reach(1).await);
    assert!(tail.stderr.text().contains("cannot be reached"), "{}", tail.stderr.text());
    home.run(&["event", "tail"]).refused(7, &["cannot be reached", "check that the server is running"]);
    let _server = home.serve().await;
    let last = send(&home, &["--type", "memory.stored"]);
    assert!(tail.stdout.reach(2).await);
    assert_eq!(ids(&tail.stdout.text()).last(), Some(&last));
    tail.signal("INT");
    assert_eq!(tail.exit().await.code(), Some(0));
    assert_eq!(tail.stderr.text().lines().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn tailing_ends_when_its_output_is_closed() {
    let home = Home::new();
    let (_server, _) = computer(&home).await;
    let sent = send(&home, &["--type", "memory.stored"]);
    let mut command = home.command(&["event", "tail", "--json"]);
    let mut tail = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(tail.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(ids(&line), [sent]);
    // The reader has closed the pipe, and without new events no write can fail.
    let tail = RefCell::new(tail);
    let status = eventually("it ends", async || tail.borrow_mut().try_wait().unwrap()).await;
    assert_eq!(status.code(), Some(0));
}

/// Claims an agent for the person who owns the computer.
async fn agent_of(home: &Home, server: &Server, machine: &Machine) {
    agent::claimed(home, server).await;
    let (_, code) = flow::device_code(server, machine).await;
    let ada = flow::session(home, "ada@example.com");
    flow::device_approve(server, &ada, &code).await.unwrap().expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_was_ended_elsewhere_is_exchanged_for_the_next_one() {
    let home = Home::new();
    let (server, machine) = computer(&home).await;
    agent_of(&home, &server, &machine).await;
    send(&home, &["--type", "memory.stored"]);
    let tail = home.start(&["event", "tail", "--as", "agent", "--json"]);
    assert!(tail.stdout.reach(1).await, "{}", tail.stderr.text());
    home.run(&["agent", "revoke"]).said();
    let sent = send(&home, &["--type", "llm.failed"]);
    assert!(tail.stdout.reach(2).await, "{}", tail.stderr.text());
    assert_eq!(ids(&tail.stdout.text()).last(), Some(&sent));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_retries_an_unavailable_server_and_not_a_permanent_error() {
    let (home, _) = flow::at_fixed_address();
    // Tokens that end so soon are exchanged at every look.
    let home = home.set("claims.access_token_valid_for", "30s");
    let (mut server, machine) = computer(&home).await;
    agent_of(&home, &server, &machine).await;
    let mut sent = vec![send(&home, &["--type", "memory.stored"])];
    let mut tail = home.start(&["event", "tail", "--as", "agent", "--json"]);
    assert!(tail.stdout.reach(1).await, "{}", tail.stderr.text());
    server.process.kill();
    assert!(tail.stderr.reach(1).await);
    let _server = home.serve().await;
    sent.push(send(&home, &["--type", "llm.failed"]));
    assert!(tail.stdout.reach(2).await, "{}", tail.stderr.text());
    assert_eq!(ids(&tail.stdout.text()), sent);

    let id = flow::text(&home.run(&["agent", "show", "--json"]).json(), "registration_id");
    home.run(&["admin", "agent", "revoke", &id]).said();
    assert_eq!(tail.exit().await.code(), Some(1));
    let said = tail.stderr.text();
    assert!(said.contains("cannot be reached") && said.contains("attache agent register --again"), "{said}");
}
