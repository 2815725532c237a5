//! `attache backup`: created while the server runs, verified, restored, and served.

use std::path::Path;

use domain::Digest;
use serde_json::{Value, json};

use crate::account::adas;
use crate::event_send::log;
use blackbox::flow;
use blackbox::process::Home;
use harness::event::Chain;

fn manifest(backup: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(backup.join("manifest.json")).unwrap()).unwrap()
}

/// Rewrites the manifest for the current files, as an attacker would.
pub fn forge(backup: &Path) {
    let mut manifest = manifest(backup);
    for file in manifest["files"].as_array_mut().unwrap() {
        let bytes = std::fs::read(backup.join(file["name"].as_str().unwrap())).unwrap();
        file["bytes"] = json!(bytes.len());
        file["sha256"] = json!(Digest::of(&bytes));
    }
    std::fs::write(backup.join("manifest.json"), manifest.to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_is_consistent_and_a_server_continues_from_it() {
    let home = Home::new();
    let server = home.serve().await;
    let machine = adas(&home, &server).await;
    let key = home.run(&["admin", "api-key", "create", "--email", "ada@example.com"]).said().to_owned();
    home.run_with_input(&["key", "set"], key.as_bytes()).said();
    let note = b"Prune roses in March, when the forsythia is in bloom.";
    home.run_with_input(&["add", "-", "--title", "Roses"], note).said();
    let mut chain = Chain::new(&machine);
    let mut before = Vec::new();
    for _ in 0..20 {
        let event = chain.next();
        flow::event(&server, &machine, &event).await.receipt();
        before.push(flow::text(&event, "event_id"));
    }
    let vkey = flow::vkey(&server).await;

    // Events arrive while it is created.
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let backup = home.dir.path().join("backup");
    let (mut sender, its_machine) = (chain.clone(), machine.clone());
    let sending = async {
        while stopped.try_recv().is_err() {
            flow::event(&server, &its_machine, &sender.next()).await.receipt();
        }
        sender
    };
    let making = async {
        let mut create = home.start(&["backup", "create", "backup", "--json"]);
        assert_eq!(create.exit().await.code(), Some(0), "{}", create.stderr.text());
        stop.send(()).unwrap();
    };
    let (sender, ()) = tokio::join!(sending, making);
    assert!(sender.seq > chain.seq);
    drop(server);

    let verified = home.run(&["backup", "verify", "backup", "--json"]).json();
    let events = verified["log"]["events"].as_u64().unwrap();
    assert!((20..=sender.seq).contains(&events) && verified["log"]["tree_size"].as_u64() <= Some(events), "{verified}");
    assert_eq!((&verified["log"]["chains"], &verified["counts"]["memories"]), (&json!(1), &json!(1)));
    assert!(home.run(&["backup", "verify", "backup"]).said().contains("leaves with a valid signature"));

    let other = Home::new();
    let path = backup.to_str().unwrap();
    let restored = other.run(&["backup", "restore", path, "--json"]).json();
    assert_eq!(restored["log"], verified["log"]);
    let server = other.serve().await;
    // The same computer, with its secret; acknowledged events are present, with proofs under the same key.
    let kept = log(&server, &machine).await;
    assert_eq!(kept.len() as u64, events);
    for id in &before {
        assert!(kept.iter().any(|event| event["event_id"] == json!(id)), "{id}");
    }
    assert_eq!(flow::proof(&server, &machine, &before[0]).await["vkey"], json!(vkey));
    assert_eq!(flow::vkey(&server).await, vkey);
    std::fs::create_dir_all(other.dir.path().join(".config")).unwrap();
    std::fs::rename(home.dir.path().join(".config/attache"), other.dir.path().join(".config/attache")).unwrap();
    let results = other.run(&["search", "when do I cut back my roses", "--url", &server.url, "--json"]);
    // The profile is of the server that was lost.
    results.refused(1, &["attache profile move"]);
    other.run(&["profile", "move", "default", "--url", &server.url]).said();
    let results = other.run(&["search", "when do I cut back my roses", "--json"]).json();
    assert_eq!(results["results"][0]["title"], "Roses");
    // The chain continues at the end of the restored log.
    let sent = other.run(&["event", "send", "--type", "memory.stored", "--json"]).json();
    assert!(sent["receipt_id"].is_string(), "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_was_altered_is_refused_with_the_reason() {
    let home = Home::new();
    let server = home.serve().await;
    let machine = adas(&home, &server).await;
    let mut chain = Chain::new(&machine);
    for _ in 0..3 {
        let event = chain.next();
        flow::event(&server, &machine, &event).await.receipt();
        flow::proof(&server, &machine, &flow::text(&event, "event_id")).await;
    }
    drop(server);
    let create = |name: &str| {
        home.run(&["backup", "create", name]).said();
        home.dir.path().join(name)
    };
    let verify = |name: &str| home.run(&["backup", "verify", name]);

    let copy = create("bytes");
    let path = copy.join("statistics.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    verify("bytes").refused(1, &["statistics.db", "has changed since the backup was created"]);

    // A corrected manifest does not hide a changed log.
    let copy = create("event");
    flow::change_rows(
        &copy.join("statistics.db"),
        "UPDATE events SET received_at_ms = received_at_ms + 1 WHERE id = 2",
    )
    .await;
    forge(&copy);
    verify("event").refused(1, &["statistics.db: event", "leaf_hash"]);
    let copy = create("tree");
    flow::change_rows(&copy.join("statistics.db"), "UPDATE tree SET root = zeroblob(32)").await;
    forge(&copy);
    verify("tree").refused(1, &["the checkpoint"]);

    let copy = create("unfinished");
    std::fs::remove_file(copy.join("manifest.json")).unwrap();
    verify("unfinished").refused(1, &["is not a complete backup"]);
    let copy = create("missing");
    std::fs::remove_file(copy.join("statistics.db")).unwrap();
    verify("missing").refused(1, &["statistics.db"]);
    let copy = create("names");
    let text = manifest(&copy).to_string().replace("statistics.db", "../escape.db");
    std::fs::write(copy.join("manifest.json"), text).unwrap();
    verify("names").refused(1, &["names unexpected files"]);

    // The command restores no file of such a backup.
    let other = Home::new();
    let path = home.dir.path().join("event");
    other.run(&["backup", "restore", path.to_str().unwrap()]).refused(1, &["leaf_hash"]);
    assert_eq!(std::fs::read_dir(other.data()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_with_older_tables_is_migrated_when_it_is_restored() {
    let home = Home::new();
    let server = home.serve().await;
    let machine = adas(&home, &server).await;
    flow::event(&server, &machine, &Chain::new(&machine).next()).await.receipt();
    drop(server);
    home.run(&["backup", "create", "backup"]).said();
    let backup = home.dir.path().join("backup");
    let path = backup.to_str().unwrap();
    // A log is never taken for another one.
    let renamed = Home::new().set("log.origin", "elsewhere.example/log");
    renamed.run(&["backup", "restore", path]).refused(1, &["the log was begun as", "elsewhere.example/log"]);
    assert_eq!(std::fs::read_dir(renamed.data()).unwrap().count(), 0);

    // Databases on which no migration has run yet.
    for file in ["attache.db", "statistics.db"] {
        std::fs::write(backup.join(file), "").unwrap();
        flow::change_tables(&backup.join(file), "CREATE TABLE kept AS SELECT 'row' AS value").await;
    }
    forge(&backup);
    home.run(&["backup", "verify", "backup"]).refused(1, &["created by an older version", "attache backup restore"]);
    let other = Home::new();
    other.run(&["backup", "restore", path]).said();
    assert!(!other.data().join("restoring").exists());
    for file in ["attache.db", "statistics.db"] {
        flow::change_rows(&other.data().join(file), "DELETE FROM kept WHERE value = 'row'").await;
    }
    let server = other.serve().await;
    let machine = adas(&other, &server).await;
    flow::event(&server, &machine, &Chain::new(&machine).next()).await.receipt();
    assert_eq!(log(&server, &machine).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_overwrites_nothing_and_has_owner_permissions_only() {
    let home = Home::new();
    home.run(&["backup", "create", "backup"]).refused(1, &["no database in", "data.dir"]);
    assert!(!home.dir.path().join("backup").exists() && !home.dir.path().join("backup.partial").exists());
    home.run(&["migrate"]).said();
    assert!(home.run(&["backup", "create", "backup"]).said().contains("restrict access to it"));
    home.run(&["backup", "create", "backup"]).refused(1, &["already exists"]);
    home.run(&["backup", "restore", "backup"]).refused(1, &["already contains a database", "data.dir"]);
    let mode = |path: &str| {
        let about = std::fs::metadata(home.dir.path().join(path)).unwrap();
        std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o777
    };
    assert_eq!([mode("backup"), mode("backup/attache.db"), mode("backup/statistics.db")], [0o700, 0o600, 0o600]);
    let postgres = Home::new().set("database.url", "postgres://nobody@localhost/none");
    postgres.run(&["backup", "create", "backup"]).refused(1, &["pg_dump", "attache doctor --deep"]);
    postgres.run(&["backup", "restore", "backup"]).refused(1, &["pg_restore"]);
}
