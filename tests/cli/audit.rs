//! `attache audit watch` and `attache verify`: a log that was rolled back, forked or replaced is noticed by those who had seen more of it.

use std::path::PathBuf;

use serde_json::Value;

use crate::account::adas;
use crate::installation::{copy, serve_new_log, stop};
use blackbox::eventually;
use blackbox::flow;
use blackbox::process::{Home, Process, Server};
use harness::event::{Chain, Machine};

/// A profile that has verified an event, on a server with a fixed address; and a copy of the data from before its last event.
struct Seen {
    home: Home,
    server: Server,
    machine: Machine,
    chain: Chain,
    older: PathBuf,
    vkey: String,
    /// Number of events before the first one of the computer.
    acts: usize,
}

async fn send(server: &Server, machine: &Machine, chain: &mut Chain) -> String {
    let event = chain.next();
    flow::event(server, machine, &event).await.receipt();
    let id = flow::text(&event, "event_id");
    flow::proof(server, machine, &id).await;
    id
}

async fn seen() -> Seen {
    let (home, _) = flow::at_fixed_address();
    let home = home.set("consent.outbox_every", "200ms");
    let server = home.serve().await;
    let machine = adas(&home, &server).await;
    let acts = flow::acts_sent(&home).await;
    let mut chain = Chain::new(&machine);
    let first = send(&server, &machine, &mut chain).await;
    home.run(&["verify", &first]).said();
    let vkey = flow::vkey(&server).await;
    stop(server).await;
    let older = home.dir.path().join("older");
    copy(&home.data(), &older);
    let server = home.serve().await;
    for _ in 0..2 {
        let id = send(&server, &machine, &mut chain).await;
        home.run(&["verify", &id]).said();
    }
    Seen { home, server, machine, chain, older, vkey, acts }
}

impl Seen {
    /// The whole data folder is put back to an earlier moment, as by an attacker or a careless operator.
    async fn rolled_back(self) -> (Self, Chain) {
        let Self { home, server, machine, chain, older, vkey, acts } = self;
        stop(server).await;
        copy(&older, &home.data());
        // The folder does not reveal the rollback: main database and log are from the same moment.
        let server = home.serve().await;
        let mut other = Chain::new(&machine);
        (other.seq, other.prev) = (1, chain_prev(&server, &machine).await);
        (Self { home, server, machine, chain, older, vkey, acts }, other)
    }
}

/// The link of the event after the newest.
async fn chain_prev(server: &Server, machine: &Machine) -> String {
    let newest = crate::event_send::log(server, machine).await.remove(0);
    let proof = flow::proof(server, machine, &flow::text(&newest, "event_id")).await;
    flow::text(&proof, "self")
}

/// The lines that a watcher has printed as JSON.
fn lines(watcher: &Process) -> Vec<Value> {
    watcher.stdout.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn states(watcher: &Process) -> Vec<String> {
    lines(watcher).iter().map(|line| flow::text(line, "state")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_only_grows_is_followed_by_verify_and_watch() {
    let Seen { home, server, machine, mut chain, vkey, acts, .. } = seen().await;
    let (seen, more) = (acts as u64 + 3, acts as u64 + 4);
    let watched = home.run(&["audit", "watch", "--once", "--json"]).json();
    assert_eq!((&watched["state"], &watched["origin"]), (&"watching".into(), &"attache/log".into()), "{watched}");
    assert_eq!((watched["size"].as_u64(), watched["seen_size"].as_u64()), (Some(seen), Some(seen)));
    send(&server, &machine, &mut chain).await;
    let said = home.run(&["audit", "watch", "--once"]);
    let expected = [format!("{more} events"), format!("consistent with the {seen} events seen")];
    assert!(expected.iter().all(|text| said.said().contains(text)), "{said:?}");
    let known = std::fs::read_to_string(flow::profile_folder(&home).join("log.json")).unwrap();
    assert!(known.contains(&vkey) && known.contains(&format!("attache/log\\n{more}\\n")), "{known}");
    // A new profile stores key and checkpoint.
    let first = home.run(&["audit", "watch", "--once", "--profile", "new", "--url", &server.url]);
    assert!(first.said().contains("seen for the first time"), "{first:?}");
    let again = home.run(&["audit", "watch", "--once", "--json", "--profile", "new", "--vkey", &vkey]).json();
    assert_eq!(again["seen_size"], more);
    home.run(&["audit", "watch", "--once", "--vkey", "no key"]).refused(1, &["no key"]);
    home.run(&["audit", "watch", "--every", "0"]).refused(2, &["--every"]);
    stop(server).await;
    home.run(&["audit", "watch", "--once"]).refused(7, &["cannot compare", "cannot be reached"]);
    home.run(&["audit", "forget"]).said();
    assert!(home.run(&["audit", "forget"]).said().contains("no checkpoint is stored"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_smaller_log_is_an_alarm() {
    let (Seen { home, server, machine, acts, .. }, mut other) = seen().await.rolled_back().await;
    // One event of another history: fewer than were seen.
    let id = send(&server, &machine, &mut other).await;
    let rolled_back = format!("was rolled back: it had signed {} events, and shows {} now", acts + 3, acts + 2);
    let alarm = home.run(&["verify", &id, "--json"]);
    alarm.refused(3, &["THE LOG IS NOT CONSISTENT", &rolled_back, "Ask the operator"]);
    let said: Value = serde_json::from_str(&alarm.stdout).unwrap();
    assert_eq!((&said["valid"], &said["log"]), (&false.into(), &"rolled_back".into()));
    // The alarm persists until `audit forget` clears it.
    let watched = home.run(&["audit", "watch", "--once", "--json"]);
    watched.refused(3, &["rolled back"]);
    let said: Value = serde_json::from_str(&watched.stdout).unwrap();
    assert_eq!((&said["state"], &said["seen_size"]), (&"rolled_back".into(), &(acts + 3).into()));
    home.run(&["audit", "forget"]).said();
    home.run(&["verify", &id]).said();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forked_log_is_an_alarm_however_long_it_is() {
    let (Seen { home, server, machine, acts, .. }, mut other) = seen().await.rolled_back().await;
    let mut id = String::new();
    // First as many events as were seen, then more: the same key signs both histories.
    for _ in 0..2 {
        id = send(&server, &machine, &mut other).await;
    }
    let forked = format!("was forked: its first {} events are not those that it had signed", acts + 3);
    home.run(&["verify", &id]).refused(3, &[&forked]);
    home.run(&["verify", &id, "--out", "proof.json"]).refused(3, &["was forked"]);
    // Offline, trees of one size are compared.
    home.run(&["verify", "proof.json"]).refused(3, &["was forked"]);
    for _ in 0..3 {
        id = send(&server, &machine, &mut other).await;
    }
    home.run(&["verify", &id]).refused(3, &["was forked"]);
    home.run(&["audit", "watch", "--once"]).refused(3, &["was forked"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_reports_each_change_once_and_ends_with_the_alarm() {
    let seen = seen().await;
    let mut watcher = seen.home.start(&["audit", "watch", "--every", "1", "--json"]);
    eventually("it watches", async || (states(&watcher) == ["watching"]).then_some(())).await;
    let Seen { home, server, machine, mut chain, older, vkey, acts } = seen;
    stop(server).await;
    eventually("it says that nobody answers", async || (states(&watcher).len() == 2).then_some(())).await;
    let server = home.serve().await;
    send(&server, &machine, &mut chain).await;
    eventually("it says that the log is back", async || (states(&watcher).len() == 3).then_some(())).await;
    let seen = Seen { home, server, machine, chain, older, vkey, acts };
    let (seen, mut other) = seen.rolled_back().await;
    send(&seen.server, &seen.machine, &mut other).await;
    assert_eq!(watcher.exit().await.code(), Some(3), "{}", watcher.stderr.text());
    let states = states(&watcher);
    assert_eq!(states[..3], ["watching", "unreachable", "reachable"], "{states:?}");
    assert_eq!(states.last().unwrap(), "rolled_back", "{states:?}");
    assert_eq!(states.iter().filter(|state| *state == "rolled_back").count(), 1);
    assert!(watcher.stderr.text().contains("THE LOG IS NOT CONSISTENT"), "{}", watcher.stderr.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_epoch_is_reported_and_trusted_only_on_request() {
    let Seen { home, server, machine, vkey, older, acts, .. } = seen().await;
    stop(server).await;
    copy(&older, &home.data());
    let server = serve_new_log(&home).await;
    let keys = blackbox::client::Client::new()
        .get(&format!("{}/api/v1/audit/keys", server.url), blackbox::client::Credential::None)
        .await
        .expect(200);
    let active = keys["keys"].as_array().unwrap().iter().find(|key| key["retired_at"].is_null()).unwrap();
    let new = flow::text(active, "vkey");
    let origin = new.split('+').next().unwrap();
    let watched = home.run(&["audit", "watch", "--once", "--json"]);
    watched.refused(3, &["attache/log has ended", origin, "--vkey KEY --pin"]);
    let said: Value = serde_json::from_str(&watched.stdout).unwrap();
    assert_eq!(said["state"], "new_epoch");
    let id = flow::text(&crate::event_send::log(&server, &machine).await[0], "event_id");
    home.run(&["verify", &id]).refused(1, &["another epoch of the log", &vkey, &new, "--pin"]);

    let pinned = home.run(&["audit", "watch", "--once", "--json", "--vkey", &new, "--pin"]).json();
    assert_eq!((&pinned["origin"], &pinned["seen_size"]), (&origin.into(), &Value::Null), "{pinned}");
    assert_eq!(pinned["earlier_epoch"]["origin"], "attache/log", "{pinned}");
    assert_eq!(pinned["earlier_epoch"]["size"], acts + 3, "{pinned}");
    home.run(&["verify", &id]).said();
    home.run(&["audit", "watch", "--once"]).said();
}
