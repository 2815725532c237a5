//! A log on PostgreSQL that lost signed events, by a restored backup or a failover: no node signs it, every one reports it, and a new
//! epoch repairs it.

use blackbox::client::{Client, Credential, Response};
use blackbox::process::{Home, Server};
use blackbox::{eventually, flow};
use harness::event::{Chain, Machine};
use harness::postgres::program;
use harness::relay::Relay;
use serde_json::Value;

use crate::installation::stop;

/// Sends events and waits until they are in the signed tree; returns their proofs.
async fn recorded(server: &Server, machine: &Machine, chain: &mut Chain, count: usize) -> Vec<Value> {
    let mut proofs = Vec::new();
    for _ in 0..count {
        let event = chain.next();
        flow::event(server, machine, &event).await.receipt();
        proofs.push(flow::proof(server, machine, &flow::text(&event, "event_id")).await);
    }
    proofs
}

async fn operator(server: &Server, path: &str) -> Response {
    Client::new().get(&format!("{}{path}", server.operator), Credential::None).await
}

/// Waits until the server is unready because of its log; returns the reason.
async fn halted(server: &Server) -> String {
    eventually("the log is halted", async || {
        let ready = operator(server, "/readyz").await;
        let ready = (ready.status == 503).then(|| ready.json())?;
        let failing = ready["failing"].as_array().unwrap().iter().find(|failing| failing["part"] == "log")?;
        let reason = flow::text(failing, "reason");
        reason.contains("does not continue").then_some(reason)
    })
    .await
}

async fn ready(server: &Server) {
    eventually("the server is ready", async || (operator(server, "/readyz").await.status == 200).then_some(())).await;
}

async fn checkpoint(server: &Server) -> String {
    let url = format!("{}/api/v1/audit/checkpoint", server.url);
    let response = Client::new().get(&url, Credential::None).await;
    assert_eq!(response.status, 200, "{response:?}");
    String::from_utf8(response.body.to_vec()).unwrap()
}

/// Verifies a proof offline, with the key that is pinned.
fn is_valid(proof: &Value, vkey: &str) {
    let output = Home::new().run_with_input(&["verify", "-", "--vkey", vkey, "--json"], proof.to_string().as_bytes());
    assert_eq!(output.json()["valid"], true, "{output:?}");
}

/// Asserts the reports, the refusals and the successful responses of a halted server.
async fn is_refused(home: &Home, server: &Server, machine: &Machine, chain: &Chain, words: &[&str]) {
    let reason = halted(server).await;
    for word in words {
        assert!(reason.contains(word), "{word}: {reason}");
    }
    assert!(reason.contains("attache admin log epoch --reason"), "{reason}");
    let before = checkpoint(server).await;
    let refused = flow::event(server, machine, &chain.clone().next()).await;
    assert_eq!(refused.status, 424, "{refused:?}");
    let said = server.process.stderr.text();
    assert!(said.contains("ERROR") && said.contains("the log is halted"), "{said}");
    let metrics = operator(server, "/metrics").await;
    assert!(String::from_utf8_lossy(&metrics.body).contains("attache_log_halted 1"), "{metrics:?}");
    let doctor = home.run(&["doctor", "--json"]);
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    assert!(doctor.stdout.contains(words[0]), "{doctor:?}");
    assert_eq!(checkpoint(server).await, before, "nothing is signed");
}

/// Declares an epoch while the server runs; returns its key.
async fn repaired(home: &Home, server: &Server) -> String {
    home.run(&["admin", "log", "epoch", "--reason", " "]).refused(2, &["--reason"]);
    let declared = home.run(&["admin", "log", "epoch", "--reason", "the backup of yesterday", "--json"]).json();
    ready(server).await;
    let vkey = flow::text(&declared, "vkey");
    let url = format!("{}/api/v1/audit/keys", server.url);
    let keys = Client::new().get(&url, Credential::None).await.expect(200);
    let active = keys["keys"].as_array().unwrap().iter().find(|key| key["retired_at"].is_null()).unwrap();
    assert_eq!(active["vkey"], vkey);
    let origin = flow::text(&declared, "origin");
    assert!(checkpoint(server).await.starts_with(&format!("{origin}\n")) && origin.starts_with("attache/log/epoch-"));
    vkey
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_backup_is_not_signed_by_any_node_until_an_epoch_is_declared() {
    let Some(database) = harness::postgres::database().await else { return };
    let home = Home::new().set("database.url", &database.url);
    let server = home.serve().await;
    let machine = flow::machine(&server).await;
    let mut chain = Chain::new(&machine);
    let early = recorded(&server, &machine, &mut chain, 2).await;
    let vkey = flow::vkey(&server).await;
    let dump = home.dir.path().join("dump");
    let dump = dump.to_str().unwrap();
    program(&database.url, "pg_dump", &["--format=custom", "--file", dump, &database.url]).await;
    let mut restored = chain.clone();
    let late = recorded(&server, &machine, &mut chain, 3).await;
    stop(server).await;
    assert!(home.data().join("checkpoint.json").exists());
    program(&database.url, "pg_restore", &["--clean", "--if-exists", "--dbname", &database.url, dump]).await;

    let server = home.serve().await;
    is_refused(&home, &server, &machine, &restored, &["it is smaller", "Remembered: 5 events", "Found: 2 events"])
        .await;
    // A node without memory does not sign it either.
    let stranger = Home::new().set("database.url", &database.url);
    let second = stranger.serve().await;
    let of_both = ["it is smaller", "Remembered: 5 events"];
    is_refused(&stranger, &second, &machine, &restored, &of_both).await;
    assert!(checkpoint(&second).await.starts_with("attache/log\n2\n"));
    // A restart of both changes nothing.
    stop(second).await;
    stop(server).await;
    let (second, server) = (stranger.serve().await, home.serve().await);
    is_refused(&stranger, &second, &machine, &restored, &of_both).await;
    is_refused(&home, &server, &machine, &restored, &of_both).await;

    let new = repaired(&home, &server).await;
    ready(&second).await;
    let proofs = recorded(&second, &machine, &mut restored, 2).await;
    for proof in early.iter().chain(&late) {
        is_valid(proof, &vkey);
    }
    for proof in &proofs {
        is_valid(proof, &new);
    }
    let kept = flow::proof(&server, &machine, &flow::text(&early[0], "event_id")).await;
    is_valid(&kept, &new);
    // The record of the epoch has the lost checkpoint and the reason.
    let url = &database.url;
    let record: String = sqlx::query_scalar(
        "SELECT convert_from(canonical, 'UTF8') FROM statistics.events WHERE event_type = 'log.epoch_began'",
    )
    .fetch_one(&mut <sqlx::PgConnection as sqlx::Connection>::connect(url).await.unwrap())
    .await
    .unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    assert_eq!(record["payload"]["reason"], "the backup of yesterday");
    assert!(flow::text(&record["payload"], "checkpoint_before").starts_with("attache/log\n5\n"), "{record}");
    for (home, server) in [(&home, server), (&stranger, second)] {
        stop(server).await;
        let doctor = home.run(&["doctor", "--deep", "--json"]);
        assert_eq!(doctor.code, Some(0), "{doctor:?}");
        let again = home.serve().await;
        ready(&again).await;
        stop(again).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_with_another_history_is_not_signed_even_if_it_is_larger() {
    let Some(database) = harness::postgres::database().await else { return };
    let home = Home::new().set("database.url", &database.url);
    let server = home.serve().await;
    let machine = flow::machine(&server).await;
    let mut chain = Chain::new(&machine);
    recorded(&server, &machine, &mut chain, 1).await;
    let dump = home.dir.path().join("dump");
    let dump = dump.to_str().unwrap();
    program(&database.url, "pg_dump", &["--format=custom", "--file", dump, &database.url]).await;
    let mut other = chain.clone();
    recorded(&server, &machine, &mut chain, 1).await;
    stop(server).await;
    program(&database.url, "pg_restore", &["--clean", "--if-exists", "--dbname", &database.url, dump]).await;
    // A node without a stored checkpoint starts first and signs, until the other node detects the fork.
    let stranger = Home::new().set("database.url", &database.url);
    let second = stranger.serve().await;
    recorded(&second, &machine, &mut other, 1).await;
    let server = home.serve().await;
    is_refused(&home, &server, &machine, &other, &["another root at the same size"]).await;
    is_refused(&stranger, &second, &machine, &other, &["another root at the same size"]).await;
    stop(server).await;
    // Without the refusal in the database, and with a larger tree, the node with a stored checkpoint detects the fork again.
    let execute = async |sql: &'static str| {
        let mut connection = <sqlx::PgConnection as sqlx::Connection>::connect(&database.url).await.unwrap();
        sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    };
    execute("UPDATE statistics.sequencer SET halted = NULL").await;
    ready(&second).await;
    recorded(&second, &machine, &mut other, 1).await;
    let server = home.serve().await;
    is_refused(&home, &server, &machine, &other, &["begins with other events", "Found: 3 events"]).await;
    repaired(&home, &server).await;
    ready(&second).await;
    recorded(&second, &machine, &mut other, 1).await;
    stop(second).await;
    stop(server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_does_not_begin_another_installation_in_an_empty_database() {
    let Some(database) = harness::postgres::database().await else { return };
    let home = Home::new().set("database.url", &database.url);
    let server = home.serve().await;
    let machine = flow::machine(&server).await;
    recorded(&server, &machine, &mut Chain::new(&machine), 1).await;
    stop(server).await;
    let Some(empty) = harness::postgres::empty_database().await else { return };
    let home = home.set("database.url", &empty.url);
    home.run(&["serve"]).refused(1, &["checkpoint.json remembers the log of installation", "remove the file"]);
    std::fs::write(home.data().join("checkpoint.json"), "{").unwrap();
    let home = home.set("database.url", &database.url);
    home.run(&["serve"]).refused(1, &["checkpoint.json cannot be read"]);
    std::fs::remove_file(home.data().join("checkpoint.json")).unwrap();
    stop(home.serve().await).await;
    assert!(home.data().join("checkpoint.json").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_that_lost_signed_events_is_noticed_by_a_running_node() {
    let Some(primary) = harness::postgres::cluster().await else { return };
    let standby = primary.standby();
    let relay = Relay::before(&primary.url).await;
    let home = Home::new().set("database.url", &relay.url);
    let server = home.serve().await;
    let machine = flow::machine(&server).await;
    let mut chain = Chain::new(&machine);
    let early = recorded(&server, &machine, &mut chain, 2).await;
    let vkey = flow::vkey(&server).await;
    let doctor = home.run(&["doctor", "--json"]);
    assert!(doctor.stdout.contains("is async") && doctor.stdout.contains("synchronous_standby_names"), "{doctor:?}");

    primary.wait_for(&standby).await;
    standby.cut_off().await;
    let mut replicated = chain.clone();
    let lost = recorded(&server, &machine, &mut chain, 2).await;
    primary.stop("immediate");
    // A standby that lags behind is no fork: the node does not sign there, and the log is not halted.
    relay.leads_to(&standby.url);
    let doctor = home.run(&["doctor", "--json"]);
    assert!(doctor.stdout.contains("is a standby (in recovery)"), "{doctor:?}");
    standby.promote();
    is_refused(&home, &server, &machine, &replicated, &["it is smaller", "Remembered: 4 events", "Found: 2 events"])
        .await;

    let new = repaired(&home, &server).await;
    let proofs = recorded(&server, &machine, &mut replicated, 2).await;
    for proof in early.iter().chain(&lost) {
        is_valid(proof, &vkey);
    }
    for proof in &proofs {
        is_valid(proof, &new);
    }
    stop(server).await;
    let doctor = home.run(&["doctor", "--deep", "--json"]);
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
}
