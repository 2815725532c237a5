//! Engines that speak PostgreSQL's protocol: each version of PostgreSQL that is supported, Citus, which keeps the log on another server, and
//! the engine at `ATTACHE_TEST_ENGINE`. Each prints its row of the table in `docs/operations.md`, PostgreSQL.
//!
//! Citus is in no registry of packages. The recipe is at that table; without it the test is skipped.

use blackbox::flow;
use blackbox::process::Home;
use harness::event::Chain;
use harness::postgres::{TestCluster, cluster, cluster_of_version};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// The steps of a row, in its order: a server migrates an empty database and starts, the tour records events with proofs and searches, the
/// doctor reads everything again and the views of the engine, and an event of a further node is proven by the first one.
async fn row(engine: &str, url: &str) -> String {
    let home = Home::new().set("database.url", url);
    let server = home.serve().await;
    let tour = home.run(&["demo", "--auto", "--url", &server.url, "--page", "http://10.0.0.1/"]);
    let words = ["claimed by demo@example.com", "the proof is valid", "Bees ("];
    let has_toured = tour.code == Some(0) && words.iter().all(|words| tour.stdout.contains(words));
    let home_of_further = Home::new().set("database.url", url);
    let further = home_of_further.serve().await;
    let machine = flow::machine(&server).await;
    let event = Chain::new(&machine).next();
    let is_taken = flow::event(&further, &machine, &event).await.status == 202;
    let is_proven =
        is_taken && flow::proof(&server, &machine, &flow::text(&event, "event_id")).await["status"] == "included";
    let doctor = home.run(&["doctor", "--deep", "--json"]);
    let findings = serde_json::from_str::<Value>(&doctor.stdout).unwrap_or_default();
    let findings = findings["findings"].as_array().cloned().unwrap_or_default();
    let is_good = |about: &str| findings.iter().any(|one| one["about"] == about && one["state"] == "good");
    let of_engine = ["database", "tables", "log", "replication", "durability", "connections", "transactions"];
    let stands_alone = |one: &Value| one["about"] == "replication" && one["found"] == "no standby is connected";
    let is_well = doctor.code == Some(0) && of_engine.into_iter().all(is_good) && findings.iter().any(stands_alone);
    let steps = [("tour", has_toured), ("two nodes", is_proven), ("doctor", is_well)];
    if steps.iter().any(|(_, is_good)| !is_good) {
        eprintln!("{engine}: {steps:?}\n{tour:?}\n{doctor:?}");
    }
    let cells = steps.map(|(_, is_good)| if is_good { "yes" } else { "no" });
    format!("| {engine} | {} |", cells.join(" | "))
}

fn documents() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md")).unwrap()
}

async fn version(version: u32) {
    let Some(cluster) = cluster_of_version(version).await else { return };
    let row = row(&format!("PostgreSQL {version}"), &cluster.url).await;
    assert!(documents().lines().any(|line| line.trim() == row), "not in docs/operations.md: {row}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_row_of_postgresql_15() {
    version(15).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_row_of_postgresql_16() {
    version(16).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_row_of_postgresql_17() {
    version(17).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_row_of_postgresql_18() {
    version(18).await;
}

/// The engine needs an empty database, which the test does not remove.
#[tokio::test(flavor = "multi_thread")]
async fn the_row_of_a_given_engine() {
    let Ok(url) = std::env::var("ATTACHE_TEST_ENGINE") else {
        eprintln!("SKIPPED: ATTACHE_TEST_ENGINE is not set: this test has shown nothing");
        return;
    };
    let mut operator = PgConnection::connect(&url).await.unwrap();
    let said: String = sqlx::query_scalar("SELECT version()").fetch_one(&mut operator).await.unwrap();
    let name = said.split([',', '(']).next().unwrap().trim();
    let row = row(name, &url).await;
    println!("{row}");
    let documents = documents();
    let known = documents.lines().map(str::trim).find(|line| line.starts_with(&format!("| {name} |")));
    assert!(known.is_none_or(|known| known == row), "docs/operations.md has {known:?}");
}

/// Starts a server with Citus; `None` without it.
async fn citus() -> Option<(TestCluster, PgConnection)> {
    let mut server = cluster().await?;
    // Citus switches TLS on with a certificate that rustls does not read.
    server.url.push_str("?sslmode=disable");
    let mut operator = PgConnection::connect(&server.url).await.unwrap();
    let known = "SELECT EXISTS (SELECT 1 FROM pg_available_extensions WHERE name = 'citus')";
    if !sqlx::query_scalar::<_, bool>(known).fetch_one(&mut operator).await.unwrap() {
        eprintln!("SKIPPED: no Citus: this test has shown nothing");
        return None;
    }
    for setting in ["shared_preload_libraries = citus", "wal_level = logical"] {
        run(&mut operator, &format!("ALTER SYSTEM SET {setting}")).await;
    }
    server.stop("fast");
    server.start();
    let mut operator = PgConnection::connect(&server.url).await.unwrap();
    // With TLS, the servers would look for a certificate in the home folder of the person that runs the tests.
    let among_themselves = "ALTER SYSTEM SET citus.node_conninfo = 'sslmode=disable'";
    for statement in ["CREATE EXTENSION citus", among_themselves, "SELECT pg_reload_conf()"] {
        run(&mut operator, statement).await;
    }
    Some((server, operator))
}

async fn run(operator: &mut PgConnection, statement: &str) {
    let done = sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(operator).await;
    done.unwrap_or_else(|error| panic!("{statement}: {error}"));
}

fn port(server: &TestCluster) -> &str {
    server.url.split([':', '/']).nth(4).unwrap()
}

/// A move to another server gives later events smaller numbers: the tree still has each event behind its predecessor.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_citus_distributes_and_moves_stays_in_order() {
    let Some((coordinator, mut operator)) = citus().await else { return };
    let Some((worker, _)) = citus().await else { return };
    let (here, there) = (port(&coordinator), port(&worker));
    for statement in [
        &format!("SELECT citus_set_coordinator_host('127.0.0.1', {here})"),
        &format!("SELECT citus_add_node('127.0.0.1', {there})"),
    ] {
        run(&mut operator, statement).await;
    }
    let home = Home::new().set("database.url", &coordinator.url);
    let server = home.serve().await;
    let mut chains = Vec::new();
    for _ in 0..4 {
        chains.push(Chain::new(&flow::machine(&server).await));
    }
    let to = |port: &str| format!("citus_schema_move('statistics', '127.0.0.1', {port}, 'block_writes')");
    let distribute = "citus_schema_distribute('statistics')".to_owned();
    // The coordinator takes no tables before.
    let take = format!("citus_set_node_property('127.0.0.1', {here}, 'shouldhaveshards', true)");
    for step in [distribute, take, to(here), to(there), to(here)] {
        for chain in &mut chains {
            for _ in 0..5 {
                let (machine, event) = (chain.machine.clone(), chain.next());
                flow::event(&server, &machine, &event).await.expect(202);
            }
        }
        run(&mut operator, &format!("SELECT {step}")).await;
    }
    for chain in &mut chains {
        let (machine, event) = (chain.machine.clone(), chain.next());
        flow::event(&server, &machine, &event).await.expect(202);
        flow::proof(&server, &machine, &flow::text(&event, "event_id")).await;
    }
    let output = home.run(&["doctor", "--deep", "--json"]);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let found = |state: &str, text: &str| {
        findings.iter().any(|finding| finding["state"] == state && flow::text(finding, "found").contains(text))
    };
    assert!(found("good", "verified: events ") && found("doubtful", "the log is distributed by Citus"), "{report}");
}
