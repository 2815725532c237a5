//! The tour and the doctor on each version of PostgreSQL that is supported: a server migrates an empty database, records events with
//! proofs, and searches; the doctor reads the views of the version.

use blackbox::flow;
use blackbox::process::Home;
use serde_json::Value;

async fn tour(version: u32) {
    let Some(cluster) = harness::postgres::cluster_of_version(version).await else { return };
    let home = Home::new().set("database.url", &cluster.url);
    let server = home.serve().await;
    let output = home.run(&["demo", "--auto", "--url", &server.url, "--page", "http://10.0.0.1/"]);
    for words in ["claimed by demo@example.com", "the proof is valid", "Bees ("] {
        assert!(output.said().contains(words), "{words}: {output:?}");
    }
    let output = home.run(&["doctor", "--deep", "--json"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let finding = |about: &str| {
        let findings = report["findings"].as_array().unwrap();
        findings.iter().find(|finding| finding["about"] == about).unwrap_or_else(|| panic!("{about} in {report}"))
    };
    for about in ["database", "tables", "log", "replication", "durability", "connections", "transactions"] {
        assert_eq!(flow::text(finding(about), "state"), "good", "{report}");
    }
    assert_eq!(flow::text(finding("replication"), "found"), "no standby is connected");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tour_on_postgresql_15() {
    tour(15).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tour_on_postgresql_16() {
    tour(16).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tour_on_postgresql_17() {
    tour(17).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tour_on_postgresql_18() {
    tour(18).await;
}
