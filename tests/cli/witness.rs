//! Witnesses of the embedded log: cosignatures in the served checkpoint, a quorum, and a log that is halted because a witness refuses it.

use blackbox::client::{Client, Credential};
use blackbox::process::{Home, Server};
use blackbox::witness::TestWitness;
use blackbox::{eventually, flow};
use harness::event::{Chain, Machine};
use serde_json::{Value, json};

use crate::installation::{copy, stop};

const ORIGIN: &str = "attache/log";

async fn checkpoint(server: &Server) -> String {
    let url = format!("{}/api/v1/audit/checkpoint", server.url);
    String::from_utf8(Client::new().get(&url, Credential::None).await.body.to_vec()).unwrap()
}

pub async fn readiness(server: &Server) -> Value {
    Client::new().get(&format!("{}/readyz", server.operator), Credential::None).await.json()
}

async fn recorded(server: &Server, machine: &Machine, chain: &mut Chain) -> Value {
    let event = chain.next();
    flow::event(server, machine, &event).await.receipt();
    flow::proof(server, machine, &flow::text(&event, "event_id")).await
}

/// Waits until the served checkpoint has this size and holds a cosignature of the witness.
async fn cosigned(server: &Server, witness: &TestWitness, size: u64) -> String {
    eventually("the checkpoint is cosigned", async || {
        let note = checkpoint(server).await;
        let is_of_size = note.lines().nth(1) == Some(&size.to_string());
        (is_of_size && witness.has_cosigned(&note)).then_some(note)
    })
    .await
}

fn home(witness: &TestWitness) -> Home {
    Home::new().set("log.witness", &format!("[{:?}]", witness.address()))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_served_checkpoint_has_the_cosignatures_of_a_witness_that_checked_it() {
    let witness = TestWitness::start().await;
    let home = home(&witness);
    let server = home.serve().await;
    let machine = flow::machine(&server).await;
    let mut chain = Chain::new(&machine);
    recorded(&server, &machine, &mut chain).await;
    // A witness that does not know the log is a degradation.
    let degraded = eventually("the witness is reported", async || {
        let ready = readiness(&server).await;
        ready["degraded"].as_array().unwrap().iter().find(|degraded| degraded["part"] == "witness").cloned()
    })
    .await;
    assert!(flow::text(&degraded, "reason").contains("404"), "{degraded}");
    assert_eq!(readiness(&server).await["status"], "ready");
    let vkey = flow::vkey(&server).await;
    witness.trust(&vkey);
    let note = cosigned(&server, &witness, 1).await;
    let key: domain::checkpoint::VerifierKey = vkey.parse().unwrap();
    assert_eq!(key.open(&note).unwrap().size, 1, "cosignatures do not disturb the key of the log");
    for size in 2..=5 {
        recorded(&server, &machine, &mut chain).await;
        cosigned(&server, &witness, size).await;
    }
    assert_eq!(readiness(&server).await["degraded"], Value::Array(vec![]));
    // The command that watches the log takes notes with cosignatures.
    flow::keep_profile(&home, &server.url, Some(&machine), None);
    let event = chain.next();
    flow::event(&server, &machine, &event).await.receipt();
    flow::proof(&server, &machine, &flow::text(&event, "event_id")).await;
    cosigned(&server, &witness, 6).await;
    home.run(&["verify", &flow::text(&event, "event_id")]).said();
    stop(server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_witness_that_lies_does_not_halt_the_log() {
    let witness = TestWitness::start().await;
    let home = home(&witness);
    // Before it has cosigned anything.
    witness.answers(Some((422, "")));
    let server = home.serve().await;
    let machine = flow::machine(&server).await;
    let mut chain = Chain::new(&machine);
    recorded(&server, &machine, &mut chain).await;
    refused(&server, "No history contradicts that proof").await;
    refused_again(&server).await;
    refused(&server, "No history contradicts that proof").await;
    // Once it has, its own cosignature contradicts it.
    witness.trust(&flow::vkey(&server).await);
    witness.answers(None);
    cosigned(&server, &witness, 1).await;
    witness.answers(Some((422, "")));
    recorded(&server, &machine, &mut chain).await;
    refused(&server, "Its own cosignature of these events holds").await;
    refused_again(&server).await;
    refused(&server, "Its own cosignature of these events holds").await;
    // A refusal that is not repeated.
    witness.answers(Some((409, "1000\n")));
    refused(&server, "The log is halted if it repeats that").await;
    witness.answers(None);
    cosigned(&server, &witness, 2).await;
    recorded(&server, &machine, &mut chain).await;
    eventually("no witness is reported", async || {
        readiness(&server).await["degraded"].as_array().unwrap().is_empty().then_some(())
    })
    .await;
    stop(server).await;
}

/// Waits until a refusal of the witness is reported, while the log continues.
async fn refused(server: &Server, because: &str) {
    eventually("the refusal is reported", async || {
        let ready = readiness(server).await;
        assert_eq!((&ready["status"], &ready["failing"]), (&json!("ready"), &json!([])), "{ready}");
        let degraded = ready["degraded"].as_array().unwrap();
        let reason =
            degraded.iter().find(|degraded| degraded["part"] == "witness").map(|one| flow::text(one, "reason"))?;
        reason.contains(because).then_some(())
    })
    .await;
    assert!(refusals(server).await > 0);
}

/// The number of refusals that the server has judged.
async fn refusals(server: &Server) -> u64 {
    let metrics = Client::new().get(&format!("{}/metrics", server.operator), Credential::None).await;
    let metrics = String::from_utf8(metrics.body.to_vec()).unwrap();
    let count =
        metrics.lines().find_map(|line| line.strip_prefix("attache_witness_answers_total{outcome=\"refused\"} "));
    count.unwrap().parse().unwrap()
}

async fn refused_again(server: &Server) {
    let before = refusals(server).await;
    eventually("the witness has refused again", async || (refusals(server).await > before).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_a_witness_refuses_is_halted() {
    let witness = TestWitness::start().await;
    let home = home(&witness).set("consent.outbox_every", "200ms");
    let server = home.serve().await;
    let machine = flow::machine(&server).await;
    let vkey = flow::vkey(&server).await;
    witness.trust(&vkey);
    let mut chain = Chain::new(&machine);
    recorded(&server, &machine, &mut chain).await;
    cosigned(&server, &witness, 1).await;
    stop(server).await;
    let older = home.dir.path().join("older");
    copy(&home.data(), &older);
    let mut other = chain.clone();
    let server = home.serve().await;
    for size in 2..=3 {
        recorded(&server, &machine, &mut chain).await;
        cosigned(&server, &witness, size).await;
    }
    stop(server).await;
    // Both files are restored, so that only the witness remembers the lost events.
    copy(&older, &home.data());
    let server = home.serve().await;
    recorded(&server, &machine, &mut other).await;
    let reason = eventually("the log is halted", async || {
        let ready = readiness(&server).await;
        let failing = ready["failing"].as_array().unwrap().iter().find(|failing| failing["part"] == "log").cloned()?;
        Some(flow::text(&failing, "reason"))
    })
    .await;
    assert!(reason.contains("witness.example/w1") && reason.contains("it has cosigned 3 events"), "{reason}");
    assert_eq!(flow::event(&server, &machine, &other.clone().next()).await.status, 424);
    let doctor = home.run(&["doctor", "--json"]);
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    // It stays halted after a restart, until a new epoch, which the witness has to be given.
    stop(server).await;
    let server = home.serve().await;
    assert_eq!(readiness(&server).await["status"], "unready");
    let declared = home.run(&["admin", "log", "epoch", "--reason", "restored", "--json"]).json();
    witness.trust(&flow::text(&declared, "vkey"));
    eventually("the server is ready", async || (readiness(&server).await["status"] == "ready").then_some(())).await;
    assert_eq!(flow::acts_sent(&home).await, 1, "the declaration is an act");
    let proof = recorded(&server, &machine, &mut other).await;
    assert_eq!(proof["vkey"], declared["vkey"]);
    let size = proof["tree_size"].as_u64().unwrap();
    cosigned(&server, &witness, size).await;
    assert_eq!((witness.size(ORIGIN), witness.size(&flow::text(&declared, "origin"))), (3, size));
    stop(server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_quorum_the_log_signs_no_further_checkpoint() {
    let witness = TestWitness::start().await;
    let home = home(&witness).set("log.witness_quorum", "1");
    let server = home.serve().await;
    let machine = flow::machine(&server).await;
    witness.trust(&flow::vkey(&server).await);
    let mut chain = Chain::new(&machine);
    recorded(&server, &machine, &mut chain).await;
    cosigned(&server, &witness, 1).await;
    witness.is_away(true);
    recorded(&server, &machine, &mut chain).await;
    let event = chain.next();
    flow::event(&server, &machine, &event).await.receipt();
    let reason = eventually("signing is reported", async || {
        let ready = readiness(&server).await;
        let failing =
            ready["failing"].as_array().unwrap().iter().find(|failing| failing["part"] == "sequence").cloned()?;
        Some(flow::text(&failing, "reason"))
    })
    .await;
    assert!(reason.contains("log.witness_quorum"), "{reason}");
    assert!(checkpoint(&server).await.starts_with("attache/log\n2\n"), "one checkpoint is ahead of the quorum");
    witness.is_away(false);
    flow::proof(&server, &machine, &flow::text(&event, "event_id")).await;
    cosigned(&server, &witness, 3).await;
    stop(server).await;
}
