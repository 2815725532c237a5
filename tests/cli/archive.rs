//! A server with an archive of its log on an S3 server: reads, `attache doctor` and `attache backup`, also while the store is away.

use blackbox::client::Client;
use blackbox::process::{Home, Server};
use blackbox::{eventually, flow};
use harness::event::Chain;
use harness::s3::S3Server;
use serde_json::Value;

use crate::account::adas;
use crate::witness::readiness;

/// Number of events: one bundle, and some more.
const EVENTS: usize = 280;

/// A server that removes bodies from its database after a second.
fn with_archive(home: Home, store: &S3Server) -> Home {
    let home = home.set("log.archive.timeout", "3s").set("log.archive.keep", "1s");
    store.settings().iter().fold(home, |home, (name, value)| home.set(name, value))
}

/// The rows of a check about the archive.
fn findings(home: &Home, arguments: &[&str]) -> Vec<(String, String)> {
    let found: Value = serde_json::from_str(&home.run(&[&["doctor", "--json"], arguments].concat()).stdout).unwrap();
    let archive = found["findings"].as_array().unwrap().iter().filter(|one| one["about"] == "archive");
    archive.map(|one| (flow::text(one, "state"), flow::text(one, "found"))).collect()
}

async fn degradations(server: &Server) -> Vec<String> {
    let ready = readiness(server).await;
    ready["degraded"].as_array().unwrap().iter().map(|one| flow::text(one, "part")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn old_bodies_leave_the_database_and_are_still_read() {
    let Some(mut store) = S3Server::start().await else { return };
    let home = with_archive(Home::new(), &store);
    let server = home.serve().await;
    let machine = adas(&home, &server).await;
    let mut chain = Chain::new(&machine);
    let mut ids = Vec::new();
    for _ in 0..EVENTS {
        let event = chain.next();
        flow::event(&server, &machine, &event).await.receipt();
        ids.push(flow::text(&event, "event_id"));
    }
    eventually("a bundle has left the database", async || {
        findings(&home, &[]).iter().any(|(_, found)| found.contains("256 have left the database")).then_some(())
    })
    .await;
    for id in [&ids[0], &ids[200], &ids[EVENTS - 1]] {
        flow::proof(&server, &machine, id).await;
    }
    let deep = findings(&home, &["--deep"]);
    assert!(deep.len() == 2 && deep.iter().all(|(state, _)| state == "good"), "{deep:?}");
    assert!(deep[1].1.contains("it has 2 objects with"), "{deep:?}");

    assert!(home.run(&["backup", "create", "backup"]).said().contains("but for bodies in log.archive.url"));
    let verified = home.run(&["backup", "verify", "backup", "--json"]).json();
    assert!(verified["log"]["archived"]["events"] == 256, "{verified}");
    assert!(
        home.run(&["backup", "verify", "backup"]).said().contains("the bodies of old events are not in this backup")
    );

    // Without the store, only what needs an old body fails.
    store.kill();
    let client = Client::new();
    // The server has read this bundle; another process has not.
    flow::proof(&server, &machine, &ids[1]).await;
    drop(server);
    let server = home.serve().await;
    let proof_at =
        async |id: &str| client.get(&format!("{}/api/v1/audit/verify?event_id={id}", server.url), &machine).await;
    let away = proof_at(&ids[0]).await.expect(424);
    assert_eq!(away["reason"], "upstream_unavailable");
    proof_at(&ids[EVENTS - 1]).await.expect(200);
    let page = client.get(&format!("{}/api/v1/activity?limit=500", server.url), &machine).await.expect(200);
    assert!(page["events"].as_array().unwrap().len() >= EVENTS, "{page}");
    flow::event(&server, &machine, &chain.next()).await.receipt();
    assert_eq!(degradations(&server).await, ["archive"]);
    assert_eq!(findings(&home, &[])[0].0, "bad");
    let refused = home.run(&["backup", "verify", "backup"]);
    refused.refused(1, &["archive", "--without-archive leaves the events unverified"]);
    assert!(
        home.run(&["backup", "verify", "backup", "--without-archive"]).said().contains("its events were not verified")
    );
    let other = with_archive(Home::new(), &store);
    let backup = home.dir.path().join("backup");
    let path = backup.to_str().unwrap();
    other.run(&["backup", "restore", path]).refused(1, &["archive"]);
    other.run(&["backup", "restore", path, "--without-archive"]).said();

    store.restart().await;
    proof_at(&ids[0]).await.expect(200);
    assert!(degradations(&server).await.is_empty());
    drop(server);
    let server = other.serve().await;
    flow::proof(&server, &machine, &ids[0]).await;

    // Without the section, the error names the setting.
    drop(server);
    let forgetful = Home::new();
    forgetful.run(&["backup", "restore", path]).refused(1, &["log.archive.url is not set"]);
}
