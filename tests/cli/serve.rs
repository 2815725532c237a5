//! `attache serve`: ready, drained, ended at once, and back on the same data.

use std::sync::Arc;

use bytes::Bytes;
use harness::upstream::{Script, TOKEN, Upstream};
use serde_json::json;
use sqlx::Connection;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use blackbox::client::{Client, Credential, Response, attempt_of};
use blackbox::eventually;
use blackbox::flow;
use blackbox::process::{Home, Server};
use blackbox::raw;
use harness::event::{Chain, Machine};

#[tokio::test(flavor = "multi_thread")]
async fn the_ready_line_is_printed_once_the_server_accepts_requests() {
    let home = Home::new();
    let mut server = home.serve().await;
    let client = Client::new();
    client.get(&format!("{}/healthz", server.operator), Credential::None).await.expect(200);
    let ready = client.get(&format!("{}/readyz", server.operator), Credential::None).await.expect(200);
    assert_eq!((&ready["status"], &ready["store"], &ready["draining"]), (&"ready".into(), &"ok".into(), &false.into()));
    let link =
        flow::identity(&server, &serde_json::json!({ "type": "service_auth", "login_hint": "ada@example.com" })).await;
    assert!(flow::text(&link["claim"], "verification_uri").starts_with(&format!("{}/claim", server.url)));
    server.process.signal("TERM");
    let status = server.process.exit().await;
    assert_eq!(status.code(), Some(0), "{}", server.process.stderr.text());
    assert_eq!(server.process.stdout.text().lines().count(), 1);
    // The log names the program, the database, the folder, the settings and the addresses.
    let log = server.process.stderr.text();
    let started = log.lines().find(|line| line.contains("the server is ready")).unwrap_or_else(|| panic!("{log}"));
    let (folder, url) = (format!("data.dir={}", home.data().display()), format!("url=\"{}\"", server.url));
    let version = concat!("version=\"", env!("CARGO_PKG_VERSION"), "\"");
    for part in [version, "database=\"sqlite\"", &folder, "schema=", "settings.digest=", &url, "operator=127.0.0.1:"] {
        assert!(started.contains(part), "{part} in {started}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_without_ca_certificates_is_served_with_the_built_in_ones() {
    let nothing = "/nonexistent/ca-certificates";
    let home = Home::new().environment("SSL_CERT_FILE", nothing).environment("SSL_CERT_DIR", nothing);
    let mut server = home.serve().await;
    Client::new().get(&format!("{}/readyz", server.operator), Credential::None).await.expect(200);
    server.process.signal("TERM");
    assert_eq!(server.process.exit().await.code(), Some(0));
    let log = server.process.stderr.text();
    assert_eq!(log.matches("this machine has no CA certificates").count(), 1, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn serving_shows_the_base_url_and_is_not_the_default() {
    let home = Home::new();
    let help = home.run(&[]);
    help.refused(2, &["Start here:", "Run a server:", "`attache serve` starts a server"]);
    assert!(!home.data().exists(), "a server was started: {help:?}");

    let home = Home::new().set("http.base_url", "https://attache.example.com");
    let mut process = home.spawn("");
    let line = process.ready_line().await;
    assert!(line.starts_with("attache is ready at https://attache.example.com (operator: http://127.0.0.1:"), "{line}");
    process.signal("INT");
    assert_eq!(process.exit().await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_in_use_is_named_with_its_setting() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for setting in ["http.bind", "admin.bind"] {
        Home::new()
            .set(setting, &address)
            .run(&["serve"])
            .refused(1, &["cannot listen on", setting, &address, "Address already in use"]);
    }
}

#[test]
fn a_database_that_cannot_be_reached_is_refused_with_its_cause() {
    let home = Home::new().set("database.url", "postgres://nobody@127.0.0.1:1/none");
    for command in [&["serve"][..], &["migrate"], &["admin", "account", "list"], &["keys", "list"]] {
        home.run(command).refused(1, &["cannot be opened", "Connection refused"]);
    }
    let doctor = home.run(&["doctor"]);
    assert!(doctor.stdout.contains("Connection refused") && doctor.code == Some(1), "{doctor:?}");
    assert!(!doctor.stdout.contains("attache migrate"), "nothing is to be migrated: {doctor:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_store_request_is_logged_with_its_cause() {
    let home = Home::new();
    let server = home.serve().await;
    let machine = flow::machine(&server).await;
    flow::change_tables(&home.data().join("attache.db"), "ALTER TABLE machines RENAME TO gone").await;
    let response = Client::new().get(&format!("{}/api/v1/activity", server.url), &machine).await;
    response.refused(424, "temporarily_unavailable");
    eventually("the cause is in the log", async || {
        let lines = server.process.stderr.text();
        let line = lines.lines().find(|line| line.contains("the store could not answer a request"))?;
        assert!(line.contains("no such table"), "{line}");
        Some(())
    })
    .await;
}

/// A server that waits for a response of its statistics service.
struct Busy {
    home: Home,
    upstream: Arc<Upstream>,
    server: Server,
    machine: Machine,
    body: Bytes,
    response: JoinHandle<Option<Response>>,
}

async fn busy(script: Script, drain_deadline: &str) -> Busy {
    let upstream = Arc::new(Upstream::start().await);
    let home = Home::new()
        .set("upstream.url", &upstream.url())
        .set("upstream.token", TOKEN)
        .set("upstream.timeout", "10m")
        .set("actors.ordered.ask_deadline", "10m")
        .set("shutdown.drain_deadline", drain_deadline);
    let server = home.serve().await;
    let client = Client::new();
    let machine = client.machine(&server.url, "tz4a98xxat96iws9zmbrgj3a", &flow::uuid()).await;
    let event = Chain::new(&machine).next();
    upstream.for_event(flow::text(&event, "event_id"), script);
    let body = Bytes::from(event.to_string());
    let (url, sender, sent) = (server.url.clone(), machine.clone(), body.clone());
    let response = tokio::spawn(async move { client.event(&url, &sender, sent).await });
    upstream.wait_for_requests(1).await;
    Busy { home, upstream, server, machine, body, response }
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_completes_requests_in_progress_and_accepts_no_new_ones() {
    let gate = Arc::new(Notify::new());
    let mut busy = busy(Script::gated(gate.clone()), "10m").await;
    busy.server.process.signal("TERM");
    let address = busy.server.url.strip_prefix("http://").unwrap();
    eventually("the listener is closed", async || TcpStream::connect(address).await.is_err().then_some(())).await;
    let operator = format!("{}/readyz", busy.server.operator);
    let unready = Client::new().get(&operator, Credential::None).await.expect(503);
    assert_eq!((&unready["draining"], &unready["status"]), (&true.into(), &"unready".into()));
    gate.notify_one();
    let receipt = busy.response.await.unwrap().unwrap().receipt();
    assert_eq!(busy.server.process.exit().await.code(), Some(0), "{}", busy.server.process.stderr.text());
    assert_eq!(busy.upstream.taken().values().next().unwrap().receipt_id, receipt);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lame_duck_is_unready_and_serves_until_it_closes() {
    let home = Home::new().set("shutdown.lame_duck", "8s");
    let mut server = home.serve().await;
    let client = Client::new();
    let machine = flow::machine(&server).await;
    let mut chain = Chain::new(&machine);
    let address = server.url.strip_prefix("http://").unwrap().parse().unwrap();
    let mut kept = raw::connect([127, 0, 0, 1], address).await;
    let ask = async |stream: &mut TcpStream| {
        stream.write_all(raw::get("/llms.txt").as_bytes()).await.unwrap();
        let (status, text) = raw::response(stream).await;
        (status, text.to_lowercase().contains("\r\nconnection: close\r\n"))
    };
    assert_eq!(ask(&mut kept).await, (200, false));
    server.process.signal("TERM");
    let operator = format!("{}/readyz", server.operator);
    let unready = eventually("it is unready", async || {
        let response = client.get(&operator, Credential::None).await;
        (response.status == 503).then(|| response.expect(503))
    })
    .await;
    assert_eq!((&unready["draining"], &unready["failing"]), (&true.into(), &serde_json::json!([])));
    // New connections and open ones are served, until answers close them.
    flow::event(&server, &machine, &chain.next()).await.receipt();
    assert_eq!(ask(&mut kept).await, (200, false));
    eventually("answers close their connections", async || {
        let mut new = raw::connect([127, 0, 0, 1], address).await;
        let (status, closes) = ask(&mut new).await;
        assert_eq!(status, 200);
        closes.then_some(())
    })
    .await;
    flow::event(&server, &machine, &chain.next()).await.receipt();
    assert_eq!(ask(&mut kept).await, (200, true));
    assert_eq!(server.process.exit().await.code(), Some(0), "{}", server.process.stderr.text());
    let log = server.process.stderr.text();
    let steps = ["draining", "unready", "the listeners close", "the actors finish", "the server has stopped"];
    let places: Vec<_> = steps.iter().map(|step| log.find(step).unwrap_or_else(|| panic!("{step}: {log}"))).collect();
    assert!(places.is_sorted(), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_from_the_terminal_skips_the_lame_duck_and_a_second_one_ends_it() {
    let home = Home::new().set("shutdown.lame_duck", "1h");
    let mut server = home.serve().await;
    server.process.signal("INT");
    assert_eq!(server.process.exit().await.code(), Some(0), "{}", server.process.stderr.text());
    let mut server = home.serve().await;
    server.process.signal("TERM");
    eventually("it is unready", async || server.process.stderr.text().contains("unready").then_some(())).await;
    server.process.signal("TERM");
    assert_eq!(server.process.exit().await.code(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_puts_live_settings_in_force_and_names_the_others() {
    let home = Home::new();
    let file = home.dir.path().join("config.toml");
    std::fs::write(&file, "[limits]\nlink_reads_per_minute = 7\n").unwrap();
    let mut server = home.serve().await;
    let hangups = std::cell::Cell::new(0);
    let reports = async |texts: &[&str]| {
        hangups.set(hangups.get() + 1);
        server.process.signal("HUP");
        eventually("it reports", async || {
            let log = server.process.stderr.text();
            let mut lines = log.lines().filter(|line| line.contains("the configuration"));
            let line = lines.nth(hangups.get() - 1)?;
            assert!(texts.iter().all(|text| line.contains(text)), "{line}");
            Some(())
        })
        .await;
    };
    reports(&["was read again", "settings.applied=\"\"", "settings.restart_needed=\"\""]).await;
    let changed = "[limits]\nlink_reads_per_minute = 1\n[http]\nauth_name = \"hidden\"\n[telemetry]\nlog = \"trace\"\n";
    std::fs::write(&file, changed).unwrap();
    let applied = "settings.applied=\"limits.link_reads_per_minute, telemetry.log\"";
    reports(&[applied, "settings.restart_needed=\"http.auth_name\""]).await;
    assert!(!server.process.stderr.text().contains("hidden"), "values may be secrets");
    // Both are in force: one address reads one link a minute, and lines of the level trace are written.
    let link = format!("{}/feeds/unknown", server.url);
    let first = Client::new().get(&link, Credential::None).await.status;
    let second = Client::new().get(&link, Credential::None).await.status;
    assert_eq!((first, second), (404, 424));
    let trace = |server: &Server| server.process.stderr.text().contains(" TRACE ").then_some(());
    eventually("lines of the level trace", async || trace(&server)).await;
    // One mistake, and nothing changes.
    std::fs::write(&file, "[limits]\nlink_reads_per_minute = -1\n[telemetry]\nlog = \"error\"\n").unwrap();
    reports(&["config.toml:2: limits.link_reads_per_minute", "nothing has changed"]).await;
    let ready = Client::new().get(&format!("{}/readyz", server.operator), Credential::None).await;
    ready.expect(200);
    std::fs::remove_file(&file).unwrap();
    let acts = eventually("all acts", async || {
        let acts = home.run(&["admin", "act", "list", "--act", "config_reload", "--json"]).json();
        (acts.as_array()?.len() == 3).then_some(acts)
    })
    .await;
    assert_eq!((&acts[0]["outcome"], &acts[1]["outcome"]), (&json!("refused"), &json!("applied")), "{acts}");
    assert_eq!((&acts[1]["by"], &acts[1]["before"]["limits.link_reads_per_minute"]), (&json!("signal"), &json!(7)));
    assert_eq!(acts[2]["after"], json!({}), "a reload without changes is on record too");
    assert_eq!(acts[1]["after"], json!({ "limits.link_reads_per_minute": 1, "telemetry.log": "trace" }));
    let metrics = Client::new().get(&format!("{}/metrics", server.operator), Credential::None).await;
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    for outcome in ["applied", "unchanged", "rejected"] {
        let expected = format!("attache_config_reloads_total{{outcome=\"{outcome}\"}} 1");
        assert!(metrics.contains(&expected), "{expected}: {metrics}");
    }
    server.process.signal("TERM");
    assert_eq!(server.process.exit().await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_manager_learns_of_start_reload_life_and_stop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = tokio::net::UnixDatagram::bind(&path).unwrap();
    let home = Home::new().environment("NOTIFY_SOCKET", path.to_str().unwrap()).environment("WATCHDOG_USEC", "200000");
    let mut server = home.serve().await;
    let next = async |wanted: &str| {
        let mut message = [0; 256];
        loop {
            let length = tokio::time::timeout(blackbox::TIME_LIMIT, socket.recv(&mut message)).await.unwrap().unwrap();
            let text = String::from_utf8_lossy(&message[..length]).into_owned();
            if text.starts_with(wanted) {
                return text;
            }
        }
    };
    next("READY=1").await;
    next("WATCHDOG=1").await;
    server.process.signal("HUP");
    assert!(next("RELOADING=1").await.contains("MONOTONIC_USEC="));
    next("READY=1").await;
    next("WATCHDOG=1").await;
    server.process.signal("TERM");
    next("STOPPING=1").await;
    assert_eq!(server.process.exit().await.code(), Some(0));
}

/// Only `serve` and `migrate` make and change tables.
#[tokio::test(flavor = "multi_thread")]
async fn other_commands_create_and_migrate_no_database() {
    const COMMANDS: [&[&str]; 4] = [
        &["admin", "account", "list"],
        &["admin", "session", "create", "--email", "ada@example.com"],
        &["keys", "list"],
        &["keys", "rotate"],
    ];
    let home = Home::new();
    for command in COMMANDS {
        home.run(command).refused(1, &["the main database does not exist", "attache migrate"]);
    }
    assert!(!home.data().exists(), "nothing is made");
    home.run(&["migrate"]).said();
    let path = home.data().join("attache.db");
    flow::change_tables(&path, "DELETE FROM _sqlx_migrations").await;
    for command in COMMANDS {
        home.run(command).refused(1, &["has schema 0", "attache migrate"]);
    }
    let Some(database) = harness::postgres::empty_database().await else { return };
    let home = Home::new().set("database.url", &database.url);
    for command in COMMANDS {
        home.run(command).refused(1, &["attache migrate"]);
    }
    let mut connection = sqlx::PgConnection::connect(&database.url).await.unwrap();
    let tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'public'";
    let tables: i64 = sqlx::query_scalar(tables).fetch_one(&mut connection).await.unwrap();
    assert_eq!(tables, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_without_migrating_refuses_older_tables_and_changes_none() {
    let home = Home::new();
    let refuses = |reasons: &[&str]| {
        let output = home.run(&["serve", "--no-migrate"]);
        output.refused(1, &[reasons, &["--no-migrate", "attache migrate"]].concat());
    };
    refuses(&["the main database does not exist"]);
    assert!(!home.data().exists(), "nothing is made");
    home.run(&["migrate"]).said();
    for (name, file) in [("\"main\"", "attache.db"), ("\"log\"", "statistics.db")] {
        let path = home.data().join(file);
        // Tables of an older version, which knew another first migration.
        flow::change_rows(&path, "UPDATE _sqlx_migrations SET version = -version").await;
        refuses(&[name, "has schema -1", "migrations 1 ("]);
        flow::change_rows(&path, "UPDATE _sqlx_migrations SET version = -version").await;
    }
    let mut process = home.start(&["serve", "--no-migrate"]);
    process.ready_line().await;
    process.signal("TERM");
    assert_eq!(process.exit().await.code(), Some(0), "{}", process.stderr.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_server_starts_on_newer_tables_that_are_for_it() {
    let home = Home::new();
    home.run(&["migrate"]).said();
    for (database, places) in [("attache.db", "the database"), ("statistics.db", "statistics")] {
        let path = home.data().join(database);
        let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
            SELECT version + 1, 'later for servers from ' || version, success, checksum, 0 FROM _sqlx_migrations
            WHERE version = (SELECT MAX(version) FROM _sqlx_migrations)";
        flow::change_tables(&path, newer).await;
        let mut server = home.serve().await;
        let machine = flow::machine(&server).await;
        flow::event(&server, &machine, &Chain::new(&machine).next()).await.receipt();
        server.process.signal("TERM");
        assert_eq!(server.process.exit().await.code(), Some(0), "{}", server.process.stderr.text());
        flow::change_tables(&path, "UPDATE _sqlx_migrations SET description = 'later' WHERE description LIKE 'later%'")
            .await;
        home.run(&["serve"]).refused(1, &[places, "(later) is not for it", "newer version"]);
        flow::change_tables(&path, "DELETE FROM _sqlx_migrations WHERE description = 'later'").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_it_at_once() {
    let mut busy = busy(Script::hang().having_stored(), "10m").await;
    busy.server.process.signal("TERM");
    eventually("it drains", async || busy.server.process.stderr.text().contains("draining").then_some(())).await;
    busy.server.process.signal("TERM");
    assert_eq!(busy.server.process.exit().await.code(), Some(1));
    assert!(busy.server.process.stderr.text().contains("second signal"));
    // It was not acknowledged, so it is resent, and counts once.
    assert!(busy.response.await.unwrap().is_none_or(|response| response.status == 424));
    let server = busy.home.serve().await;
    let receipt = Client::new().event(&server.url, &busy.machine, busy.body).await.unwrap().receipt();
    assert_eq!(busy.upstream.taken().values().next().unwrap().receipt_id, receipt);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_over_the_drain_deadline_ends_with_the_process() {
    let mut busy = busy(Script::hang(), "400ms").await;
    busy.server.process.signal("TERM");
    assert_eq!(busy.server.process.exit().await.code(), Some(1));
    assert!(
        busy.server.process.stderr.text().contains("shutdown.drain_deadline"),
        "{}",
        busy.server.process.stderr.text()
    );
    assert!(busy.response.await.unwrap().is_none_or(|response| response.status == 424));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_continues_with_its_data_after_a_kill() {
    let home = Home::new().set("http.base_url", "https://attache.example.com");
    let bind = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    // With a base URL the line does not contain the port, so the test chooses it.
    let home = home.set("http.bind", &bind.to_string());
    let at_home = |mut server: Server| {
        server.url = format!("http://{bind}");
        server
    };
    let mut server = at_home(home.serve().await);
    let person = flow::session(&home, "ada@example.com");
    let machine = flow::machine(&server).await;
    let (agent, tokens) = flow::agent(&server, &person).await;
    let event = Chain::new(&machine).next();
    let receipt = flow::event(&server, &machine, &event).await.receipt();
    let waiting =
        flow::identity(&server, &serde_json::json!({ "type": "service_auth", "login_hint": "ada@example.com" })).await;
    let vkey = flow::vkey(&server).await;
    server.process.kill();

    let server = at_home(home.serve().await);
    assert_eq!(flow::vkey(&server).await, vkey);
    assert_eq!(flow::event(&server, &machine, &event).await.receipt(), receipt);
    let page = Client::new().get(&format!("{}/api/v1/activity", server.url), &machine).await.expect(200);
    assert_eq!(page["events"].as_array().unwrap().len(), 1);
    // The agent, its token and its assertion.
    let token = Credential::Bearer(flow::text(&tokens, "access_token"));
    Client::new().get(&format!("{}/api/v1/activity", server.url), token).await.expect(200);
    flow::token_by_assertion(&server, &flow::text(&tokens, "identity_assertion")).await.expect(200);
    let agents = home.run(&["admin", "agent", "list", "--json"]).json();
    assert!(agents.as_array().unwrap().iter().any(|listed| listed["id"] == agent && listed["status"] == "claimed"));
    // A claim that was shown to a person before the kill is completed after it.
    let claim_token = flow::text(&waiting, "claim_token");
    flow::token_by_claim(&server, &claim_token).await.refused(400, "authorization_pending");
    let attempt = attempt_of(&waiting["claim"]);
    flow::complete(&server, &person, &attempt, &flow::text(&waiting["claim"], "user_code")).await.expect(200);
    flow::token_by_claim(&server, &claim_token).await.expect(200);
}
