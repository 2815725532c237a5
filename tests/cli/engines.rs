//! Engines that speak PostgreSQL's protocol: Citus, which keeps the log on another server.
//!
//! It is in no registry of packages. The recipe is in `docs/operations.md`, PostgreSQL; without it the test is skipped.

use blackbox::flow;
use blackbox::process::Home;
use harness::event::Chain;
use harness::postgres::{TestCluster, cluster};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

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
