//! A main database and a log that do not belong together: refused at the start with the remedies, and accepted with `serve --new-log`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sqlx::{Connection, PgConnection, Row, SqliteConnection};

use blackbox::flow;
use blackbox::process::{Home, Server};
use harness::event::{Chain, Machine};

/// Starts a server with `--new-log` and waits until it is ready.
pub async fn serve_new_log(home: &Home) -> Server {
    let mut process = home.start(&["serve", "--new-log"]);
    let line = process.ready_line().await;
    let addresses = line.strip_prefix("attache is ready at ").and_then(|rest| rest.strip_suffix(')'));
    let (url, operator) = addresses.and_then(|both| both.split_once(" (operator: ")).unwrap();
    Server { url: url.to_owned(), operator: operator.to_owned(), process }
}

/// Stops a server as a service manager does.
pub async fn stop(mut server: Server) {
    server.process.signal("TERM");
    assert_eq!(server.process.exit().await.code(), Some(0), "{}", server.process.stderr.text());
}

/// Copies the databases of a server that is stopped.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for name in ["attache.db", "statistics.db"] {
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(to.join(format!("{name}{suffix}")));
            let path = from.join(format!("{name}{suffix}"));
            if path.exists() {
                std::fs::copy(path, to.join(format!("{name}{suffix}"))).unwrap();
            }
        }
    }
}

fn remove(home: &Home, name: &str) {
    std::fs::remove_file(home.data().join(name)).unwrap();
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(home.data().join(format!("{name}{suffix}")));
    }
}

/// Sends an event and waits until it is in the signed tree; returns its proof.
async fn recorded(server: &Server, machine: &Machine, chain: &mut Chain) -> Value {
    let event = chain.next();
    flow::event(server, machine, &event).await.receipt();
    flow::proof(server, machine, &flow::text(&event, "event_id")).await
}

/// A stopped server with some events, its computer, and the key of its log.
async fn used(home: &Home, events: usize) -> (Machine, Chain, String) {
    let server = home.serve().await;
    let machine = flow::machine(&server).await;
    let mut chain = Chain::new(&machine);
    for _ in 0..events {
        recorded(&server, &machine, &mut chain).await;
    }
    let vkey = flow::vkey(&server).await;
    stop(server).await;
    (machine, chain, vkey)
}

/// The key that signs, after it was checked that it is of a new epoch.
async fn epoch_key(server: &Server) -> String {
    let keys = blackbox::client::Client::new()
        .get(&format!("{}/api/v1/audit/keys", server.url), blackbox::client::Credential::None)
        .await
        .expect(200);
    let active = keys["keys"].as_array().unwrap().iter().find(|key| key["retired_at"].is_null()).unwrap();
    let vkey = flow::text(active, "vkey");
    assert!(vkey.starts_with("attache/log/epoch-"), "{vkey}");
    vkey
}

async fn rows(path: &Path, sql: &'static str) -> Vec<String> {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
    let mut database = SqliteConnection::connect_with(&options).await.unwrap();
    let rows = sqlx::query(sql).fetch_all(&mut database).await.unwrap().iter().map(|row| row.get(0)).collect();
    database.close().await.unwrap();
    rows
}

/// Every command that opens the databases returns the same error.
fn is_refused(home: &Home, reasons: &[&str]) {
    for command in [&["serve"][..], &["migrate"]] {
        let output = home.run(command);
        let said = output.refused(1, reasons);
        for way_out in ["attache backup restore", "attache serve --new-log"] {
            assert!(said.contains(way_out), "{said}");
        }
    }
    let doctor = home.run(&["doctor", "--json"]);
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    assert!(doctor.stdout.contains("--new-log"), "{doctor:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_log_is_refused_and_a_new_one_is_reported() {
    let home = Home::new();
    let (machine, _, vkey) = used(&home, 2).await;
    remove(&home, "statistics.db");
    is_refused(&home, &["remembers an event log of at least 2 events, and there is none"]);
    assert!(!home.data().join("statistics.db").exists(), "a refused start makes no log");
    home.run(&["backup", "create", "backup"]).refused(1, &["there is none"]);

    let server = serve_new_log(&home).await;
    let new = epoch_key(&server).await;
    assert_ne!(new, vkey);
    // The chain of the computer continues at the end of this log.
    let proof = recorded(&server, &machine, &mut Chain::new(&machine)).await;
    assert_eq!((&proof["vkey"], &proof["leaf_index"]), (&json!(new), &json!(1)));
    assert!(flow::text(&proof, "checkpoint").starts_with(new.split('+').next().unwrap()), "{proof}");
    stop(server).await;
    let log = home.data().join("statistics.db");
    assert_eq!(rows(&log, "SELECT event_type FROM events ORDER BY id").await, ["log.epoch_began", "memory.stored"]);
    let record = rows(&log, "SELECT CAST(canonical AS TEXT) FROM events WHERE id = 1").await.remove(0);
    let record: Value = serde_json::from_str(&record).unwrap();
    assert_eq!(record["payload"]["continues"], false);
    // The checkpoint that is lost is in the new log.
    assert!(flow::text(&record["payload"], "checkpoint_before").starts_with("attache/log\n2\n"), "{record}");
    assert!(new.starts_with(&flow::text(&record["payload"], "origin")));

    // The next start continues without the option.
    let server = home.serve().await;
    assert_eq!(flow::vkey(&server).await, new);
    stop(server).await;
    let doctor = home.run(&["doctor", "--deep", "--json"]);
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_facts_are_refused_and_the_log_without_facts_is_set_aside() {
    let home = Home::new();
    let (machine, _, vkey) = used(&home, 1).await;
    remove(&home, "attache.db");
    is_refused(&home, &["an event log without the main database that belongs to it"]);
    home.run(&["admin", "account", "create", "--email", "ada@example.com"]).refused(1, &["without the main database"]);
    assert!(
        !home.data().join("attache.db").exists(),
        "nothing makes a main database beside a log without a main database"
    );

    let server = serve_new_log(&home).await;
    assert_ne!(epoch_key(&server).await, vkey);
    let response = blackbox::client::Client::new().get(&format!("{}/api/v1/activity", server.url), &machine).await;
    assert_eq!(response.status, 401, "the computer is unknown");
    stop(server).await;
    let aside: Vec<PathBuf> = std::fs::read_dir(home.data())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("statistics-"))
        .collect();
    assert_eq!(aside.len(), 1, "{aside:?}");
    assert_eq!(rows(&aside[0], "SELECT event_type FROM events").await, ["memory.stored"]);
    let log = home.data().join("statistics.db");
    assert_eq!(rows(&log, "SELECT event_type FROM events").await, ["log.epoch_began"]);
    stop(home.serve().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_of_the_log_is_refused_and_continues_in_a_new_epoch() {
    let home = Home::new();
    let (machine, mut chain, vkey) = used(&home, 3).await;
    let older = home.dir.path().join("older");
    copy(&home.data(), &older);
    let server = home.serve().await;
    let event = recorded(&server, &machine, &mut chain).await;
    assert_eq!(event["leaf_index"], 3);
    stop(server).await;
    let newer = home.dir.path().join("newer");
    copy(&home.data(), &newer);
    // Only the log is restored.
    remove(&home, "statistics.db");
    std::fs::copy(older.join("statistics.db"), home.data().join("statistics.db")).unwrap();
    is_refused(&home, &["the event log has 3 signed events, and the main database remembers 4", "rolled back"]);

    // So is another history of the same log, however long.
    copy(&older, &home.data());
    let server = home.serve().await;
    let mut other = Chain::new(&flow::machine(&server).await);
    for _ in 0..3 {
        let event = other.next();
        let sender = other.machine.clone();
        flow::event(&server, &sender, &event).await.receipt();
        flow::proof(&server, &sender, &flow::text(&event, "event_id")).await;
    }
    stop(server).await;
    std::fs::copy(newer.join("attache.db"), home.data().join("attache.db")).unwrap();
    is_refused(&home, &["the first 4 events of the log are not those that it had signed"]);

    // A new epoch keeps the events of the log, and proves them with its own key.
    copy(&newer, &home.data());
    std::fs::copy(older.join("statistics.db"), home.data().join("statistics.db")).unwrap();
    let server = serve_new_log(&home).await;
    let new = epoch_key(&server).await;
    assert_ne!(new, vkey);
    let events = crate::event_send::log(&server, &machine).await;
    assert_eq!(events.len(), 3);
    let proof = flow::proof(&server, &machine, &flow::text(&events[0], "event_id")).await;
    assert_eq!(proof["vkey"], json!(new));
    stop(server).await;
    let types = rows(&home.data().join("statistics.db"), "SELECT event_type FROM events ORDER BY id").await;
    assert_eq!(types.last().map(String::as_str), Some("log.epoch_began"), "{types:?}");
    stop(home.serve().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_of_another_installation_is_refused() {
    let (home, other) = (Home::new(), Home::new());
    used(&home, 1).await;
    used(&other, 2).await;
    remove(&home, "statistics.db");
    std::fs::copy(other.data().join("statistics.db"), home.data().join("statistics.db")).unwrap();
    is_refused(&home, &["the main database is of installation", "and the event log of installation"]);
    let server = serve_new_log(&home).await;
    epoch_key(&server).await;
    stop(server).await;
    let types = rows(&home.data().join("statistics.db"), "SELECT event_type FROM events ORDER BY id").await;
    assert_eq!(types, ["log.epoch_began"], "events of others are not taken over");
}

/// Removes the ids, as if the first start had ended before it wrote them.
async fn forget_ids(home: &Home) {
    for database in ["attache.db", "statistics.db"] {
        flow::change_rows(&home.data().join(database), "DELETE FROM installation").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pair_without_ids_gets_them_once() {
    let home = Home::new();
    let (machine, mut chain, vkey) = used(&home, 1).await;
    forget_ids(&home).await;
    let server = home.serve().await;
    assert_eq!(flow::vkey(&server).await, vkey);
    recorded(&server, &machine, &mut chain).await;
    stop(server).await;
    let id = "SELECT HEX(installation_id) FROM installation";
    let (main, log) = (home.data().join("attache.db"), home.data().join("statistics.db"));
    assert_eq!(rows(&main, id).await, rows(&log, id).await);
    assert_eq!(rows(&main, "SELECT CAST(log_size AS TEXT) FROM installation").await, ["2"]);

    // A main database without an installation record still contains the number of counted events.
    forget_ids(&home).await;
    flow::change_rows(&main, "UPDATE usage_cursor SET counted = 2").await;
    remove(&home, "statistics.db");
    is_refused(&home, &["an event log of at least 2 events"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_two_backups_are_no_backup() {
    let home = Home::new();
    let (machine, mut chain, _) = used(&home, 1).await;
    home.run(&["backup", "create", "first"]).said();
    let server = home.serve().await;
    recorded(&server, &machine, &mut chain).await;
    stop(server).await;
    home.run(&["backup", "create", "second"]).said();
    for name in ["first", "second"] {
        home.run(&["backup", "verify", name]).said();
    }
    let backup = |name: &str| home.dir.path().join(name);
    std::fs::copy(backup("first").join("statistics.db"), backup("second").join("statistics.db")).unwrap();
    crate::backup::forge(&backup("second"));
    home.run(&["backup", "verify", "second"]).refused(1, &["belong to different backups", "rolled back"]);
    let other = Home::new();
    other.run(&["backup", "restore", backup("second").to_str().unwrap()]).refused(1, &["belong to different backups"]);
    // An older backup starts unchanged; `restore` prints the remedy for a log that has newer events.
    let restored = other.run(&["backup", "restore", backup("first").to_str().unwrap()]);
    assert!(restored.said().contains("attache serve --new-log"), "{restored:?}");
    stop(other.serve().await).await;
    let server = serve_new_log(&other).await;
    epoch_key(&server).await;
    assert_eq!(crate::event_send::log(&server, &machine).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_holds_on_postgres() {
    let Some(database) = harness::postgres::database().await else { return };
    let home = Home::new().set("database.url", &database.url);
    let (machine, _, vkey) = used(&home, 2).await;
    let execute = async |sql: &'static str| {
        let mut connection = PgConnection::connect(&database.url).await.unwrap();
        sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    };
    execute("ALTER SCHEMA statistics RENAME TO kept").await;
    is_refused(&home, &["remembers an event log of at least 2 events, and there is none"]);
    execute("DROP SCHEMA statistics CASCADE; ALTER SCHEMA kept RENAME TO statistics").await;
    let server = home.serve().await;
    assert_eq!(flow::vkey(&server).await, vkey, "it continues after it is restored");
    stop(server).await;

    execute("ALTER SCHEMA statistics RENAME TO kept").await;
    let server = serve_new_log(&home).await;
    let new = epoch_key(&server).await;
    recorded(&server, &machine, &mut Chain::new(&machine)).await;
    stop(server).await;
    execute("UPDATE installation SET log_size = log_size - 1").await;
    stop(home.serve().await).await;
    execute("UPDATE statistics.tree SET size = size - 1").await;
    is_refused(&home, &["rolled back"]);
    execute("UPDATE statistics.tree SET size = size + 1").await;

    execute("ALTER SCHEMA public RENAME TO gone; CREATE SCHEMA public").await;
    for command in [&["serve"][..], &["migrate"], &["keys", "list"]] {
        home.run(command).refused(1, &["an event log without the main database", "attache serve --new-log"]);
    }
    let server = serve_new_log(&home).await;
    assert_ne!(epoch_key(&server).await, new);
    stop(server).await;
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    let aside = "SELECT COUNT(*) FROM pg_namespace WHERE nspname LIKE 'statistics!_%' ESCAPE '!'";
    let aside: i64 = sqlx::query_scalar(aside).fetch_one(&mut connection).await.unwrap();
    assert_eq!(aside, 1);
    connection.close().await.unwrap();
    stop(home.serve().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_statistics_service_does_not_change_the_recorded_log() {
    let home = Home::new();
    let (_, _, vkey) = used(&home, 1).await;
    let upstream = harness::upstream::Upstream::start().await;
    let external = Home::new()
        .set("data.dir", home.data().to_str().unwrap())
        .set("upstream.url", &upstream.url())
        .set("upstream.token", harness::upstream::TOKEN);
    let aside = home.dir.path().join("aside.db");
    std::fs::rename(home.data().join("statistics.db"), &aside).unwrap();
    stop(external.serve().await).await;
    is_refused(&home, &["and there is none"]);
    std::fs::rename(&aside, home.data().join("statistics.db")).unwrap();
    let server = home.serve().await;
    assert_eq!(flow::vkey(&server).await, vkey);
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_are_created_with_owner_permissions_only() {
    let home = Home::new();
    let server = home.serve().await;
    // The owner is notified of the computer.
    crate::account::adas(&home, &server).await;
    let outbox = home.data().join("outbox");
    blackbox::eventually("the mail is written", async || outbox.exists().then_some(())).await;
    let mode = |path: &Path| {
        let about = std::fs::metadata(path).unwrap();
        std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o777
    };
    assert_eq!((mode(&home.data()), mode(&outbox)), (0o700, 0o700));
    stop(server).await;
    // The server keeps the mode of an existing folder; `doctor` explains its effect.
    std::fs::set_permissions(home.data(), std::os::unix::fs::PermissionsExt::from_mode(0o750)).unwrap();
    stop(home.serve().await).await;
    assert_eq!(mode(&home.data()), 0o750);
    let doctor = home.run(&["doctor"]);
    assert!(doctor.said().contains("can be listed by other users (mode 750)"), "{doctor:?}");
    assert!(doctor.said().contains("chmod go-rwx"), "{doctor:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_is_rehearsed_with_copies_beside_a_running_server() {
    let home = Home::new();
    home.run(&["migrate", "--dry-run", "--rehearse"]).refused(1, &["the main database"]);
    let server = home.serve().await;
    let machine = flow::machine(&server).await;
    recorded(&server, &machine, &mut Chain::new(&machine)).await;
    let plan = home.run(&["migrate", "--dry-run", "--rehearse", "--json"]).json();
    for member in ["copies_ms", "migration_ms"] {
        assert!(plan["rehearsal"][member].is_u64(), "{plan}");
    }
    let plan = home.run(&["migrate", "--dry-run", "--rehearse"]);
    assert!(plan.said().contains("nothing to migrate\nrehearsal: copied in "), "{plan:?}");
    let files = std::fs::read_dir(home.data()).unwrap().map(|file| file.unwrap().file_name());
    assert!(files.into_iter().all(|name| !name.to_string_lossy().starts_with("rehearsal")), "the copies are deleted");
    assert_eq!(home.run(&["migrate", "--dry-run", "--json"]).json()["rehearsal"], Value::Null);
    stop(server).await;
    let postgres = home.set("database.url", "postgres://nobody@127.0.0.1:1/none");
    postgres.run(&["migrate", "--dry-run", "--rehearse"]).refused(1, &["database.url"]);
}
