//! `attache doctor`: healthy checks are reported, and failed ones with a remedy.

use harness::upstream::{TOKEN, Upstream};
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use tokio::net::TcpListener;

use crate::account::adas;
use blackbox::client::{Client, Credential};
use blackbox::eventually;
use blackbox::flow;
use blackbox::process::{Done, Home};
use harness::event::Chain;

/// The state of each thing, by name.
fn states(done: &Done) -> Vec<(String, String)> {
    let value: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"));
    assert_eq!(value["well"], json!(done.code == Some(0)), "{done:?}");
    let findings = value["findings"].as_array().unwrap().iter();
    findings.map(|finding| (flow::text(finding, "about"), flow::text(finding, "state"))).collect()
}

fn state(done: &Done, about: &str) -> String {
    let states = states(done);
    states.iter().find(|(name, _)| name == about).unwrap_or_else(|| panic!("{about} in {states:?}")).1.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn before_the_first_start_and_beside_a_server_all_is_well() {
    let home = Home::new();
    let output = home.run(&["doctor"]);
    assert!(
        output.said().contains("does not exist yet") && output.said().contains("`attache serve` creates it"),
        "{output:?}"
    );
    let server = home.serve().await;
    let machine = adas(&home, &server).await;
    let event = Chain::new(&machine).next();
    flow::event(&server, &machine, &event).await.receipt();
    flow::proof(&server, &machine, &flow::text(&event, "event_id")).await;
    let output = home.run(&["doctor", "--deep", "--json"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    for about in ["data folder", "database", "tables", "writes", "file", "statistics", "log", "log file", "clock"] {
        assert_eq!(state(&output, about), "good", "{about}: {}", output.stdout);
    }
    let names: Vec<String> = states(&output).into_iter().map(|(name, _)| name).collect();
    for about in ["disk", "fsync", "descriptors"] {
        assert!(names.contains(&about.to_owned()), "{about} in {names:?}");
    }
    assert!(output.stdout.contains("journal_mode wal") && output.stdout.contains("events 1, chains 1"), "{output:?}");
    drop(server);

    let path = home.data().join("statistics.db");
    flow::change_rows(&path, "UPDATE events SET received_at_ms = received_at_ms + 1").await;
    assert_eq!(home.run(&["doctor", "--json"]).code, Some(0), "it was not asked to read everything");
    let output = home.run(&["doctor", "--deep"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stdout.contains("leaf_hash") && output.stdout.contains("the log was modified"), "{output:?}");
    flow::change_rows(&path, "UPDATE tree SET signed_at = '2999-01-01T00:00:00.000+00:00'").await;
    assert_eq!(state(&home.run(&["doctor", "--json"]), "clock"), "bad");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsigned_log_is_reported_by_readiness_actors_metrics_log_and_doctor() {
    let operator = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let home = Home::new().set("admin.bind", &operator.to_string()).set("admin.stalled_after", "1s");
    // The events of acts come after the events of this test.
    let home = home.set("consent.outbox_every", "1m");
    let server = home.serve().await;
    let machine = adas(&home, &server).await;
    let mut chain = Chain::new(&machine);
    let event = chain.next();
    flow::event(&server, &machine, &event).await.receipt();
    flow::proof(&server, &machine, &flow::text(&event, "event_id")).await;
    let client = Client::new();
    let get = async |path: &str| client.get(&format!("http://{operator}{path}"), Credential::None).await;
    let metric = async |name: &str| {
        let metrics = String::from_utf8(get("/metrics").await.body.to_vec()).unwrap();
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("{name} in {metrics}")).parse::<f64>().unwrap()
    };
    let failures = async || metric("attache_pass_failures_total{name=\"sequence\"}").await;
    let sequence = async || {
        let tree = get("/actors").await.expect(200);
        let mut children = tree["children"].as_array().unwrap().iter();
        children.find(|child| child["name"] == "sequence").unwrap().clone()
    };
    get("/readyz").await.expect(200);
    assert!(failures().await < 1.0 && metric("attache_log_unplaced_events").await < 1.0);
    assert_eq!(sequence().await["failing"], Value::Null);
    for database in ["main", "log"] {
        let number = async |kind: &str| metric(&format!("attache_database_{kind}{{database=\"{database}\"}}")).await;
        assert!(number("connections").await >= 1.0);
        assert!(number("connections_idle").await >= 0.0 && number("writes_waiting").await >= 0.0);
    }
    assert!(home.run(&["health"]).said().contains("ready at"));
    let well = home.run(&["doctor", "--json"]);
    assert_eq!((state(&well, "server"), state(&well, "passes")), ("good".into(), "good".into()), "{well:?}");

    // The stored tree is another one than was signed.
    let path = home.data().join("statistics.db");
    flow::change_tables(&path, "CREATE TABLE kept AS SELECT root FROM tree").await;
    flow::change_rows(&path, "UPDATE tree SET root = zeroblob(32)").await;
    flow::event(&server, &machine, &chain.next()).await.receipt();
    let unready = eventually("it is unready", async || {
        let response = get("/readyz").await;
        (response.status == 503).then(|| response.json())
    })
    .await;
    assert_eq!(unready["failing"][0]["part"], "sequence", "{unready}");
    assert!(flow::text(&unready["failing"][0], "reason").contains("nothing is signed until"), "{unready}");
    assert_eq!((&unready["store"], &unready["actors"]), (&"ok".into(), &"failing".into()), "{unready}");
    let failing = sequence().await["failing"].clone();
    assert!(flow::text(&failing, "error").contains("nothing is signed until"), "{failing}");
    assert!(
        failing["passes"].as_u64().unwrap() > 1 && failing["since_seconds_ago"].as_u64().unwrap() >= 1,
        "{failing}"
    );
    assert!(failures().await > 1.0);
    assert!(metric("attache_log_checkpoint_age_seconds").await >= 1.0);
    assert!((0.9..1.1).contains(&metric("attache_log_unplaced_events").await));
    home.run(&["health"]).refused(75, &["unready at", "nothing is signed until"]);
    let ill = home.run(&["doctor", "--json"]);
    assert_eq!((state(&ill, "server"), state(&ill, "passes")), ("bad".into(), "bad".into()), "{ill:?}");
    assert!(ill.stdout.contains("events without a place in it: 1"), "{ill:?}");

    flow::change_rows(&path, "UPDATE tree SET root = (SELECT root FROM kept)").await;
    eventually("it is ready again", async || (get("/readyz").await.status == 200).then_some(())).await;
    assert_eq!(sequence().await["failing"], Value::Null);
    let lines = server.process.stderr.text();
    for said_once in ["passes began to fail", "passes succeed again"] {
        assert_eq!(lines.matches(said_once).count(), 1, "{said_once}: {lines}");
    }
    drop(server);
    home.run(&["health"]).refused(7, &["no server answers at", "admin.bind"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_cannot_be_compared_with_the_main_database_is_reported() {
    let home = Home::new();
    drop(home.serve().await);
    flow::change_tables(&home.data().join("attache.db"), "ALTER TABLE installation RENAME TO kept").await;
    let ill = home.run(&["doctor", "--json"]);
    assert_eq!((ill.code, state(&ill, "installation")), (Some(1), "bad".into()), "{ill:?}");
    assert!(ill.stdout.contains("the log was not compared with the main database: "), "{ill:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_the_data_folder_are_reported() {
    let home = Home::new();
    home.run(&["migrate"]).said();
    std::fs::set_permissions(home.data(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let output = home.run(&["doctor"]);
    assert!(
        output.said().contains("can be changed by other users") && output.said().contains("chmod go-w"),
        "{output:?}"
    );
    assert_eq!(state(&home.run(&["doctor", "--json"]), "data folder"), "doubtful");
    let file = home.dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    Home::new().set("data.dir", file.to_str().unwrap()).run(&["doctor"]).refused(78, &["data.dir: is a file"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_checks_the_statistics_service() {
    let upstream = Upstream::start().await;
    let at = |token: &str| Home::new().set("upstream.url", &upstream.url()).set("upstream.token", token);
    assert_eq!(state(&at(TOKEN).run(&["doctor", "--json"]), "statistics"), "good");
    let wrong = at("another").run(&["doctor"]);
    assert!(wrong.code == Some(1) && wrong.stdout.contains("upstream.token"), "{wrong:?}");
    assert_eq!(upstream.take_surprises().len(), 1, "the token");
    upstream.go_down().await;
    let away = at(TOKEN).run(&["doctor"]);
    assert!(away.code == Some(1) && away.stdout.contains("upstream.url is correct"), "{away:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_is_looked_at_too() {
    let Some(database) = harness::postgres::empty_database().await else { return };
    let home = Home::new().set("database.url", &database.url);
    let old = home.run(&["doctor"]);
    assert!(old.code == Some(1) && old.stdout.contains("attache migrate"), "{old:?}");
    home.run(&["migrate"]).said();
    let output = home.run(&["doctor", "--deep", "--json"]);
    for about in ["database", "tables", "writes", "file", "statistics", "log", "log file", "clock"] {
        assert_eq!(state(&output, about), "good", "{about}: {}", output.stdout);
    }
    assert!(output.stdout.contains("synchronous_commit on"), "{output:?}");
    let read = "every row of every table was read; indexes were not";
    assert!(output.stdout.contains(read) && !output.stdout.contains("every page"), "{output:?}");
    let refused = Home::new().set("database.url", "postgres://nobody@127.0.0.1:1/none").run(&["doctor"]);
    assert!(refused.code == Some(1) && refused.stdout.contains("database.url is correct"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sequence_that_caches_numbers_is_refused_with_the_statement_that_mends_it() {
    const REMEDY: &str = "ALTER SEQUENCE statistics.events_id_seq CACHE 1";
    let Some(database) = harness::postgres::database().await else { return };
    let home = Home::new().set("database.url", &database.url);
    home.run(&["migrate"]).said();
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    sqlx::query("ALTER SEQUENCE statistics.events_id_seq CACHE 100").execute(&mut connection).await.unwrap();
    let output = home.run(&["doctor"]);
    assert!(output.code == Some(1) && output.stdout.contains(REMEDY), "{output:?}");
    let refused = home.run(&["serve"]);
    assert!(refused.code == Some(1) && refused.stderr.contains(REMEDY), "{refused:?}");
    sqlx::query(REMEDY).execute(&mut connection).await.unwrap();
    let output = home.run(&["doctor"]);
    assert_eq!(output.code, Some(0), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn more_connections_than_descriptors_are_reported_with_a_remedy() {
    let home = Home::new().set("http.connections_max", "4000000000");
    let output = home.run(&["check"]);
    assert!(
        output.said().contains("http.connections_max is 4000000000") && output.said().contains("ulimit -Hn"),
        "{output:?}"
    );
    let output = home.run(&["doctor", "--json"]);
    assert_eq!((output.code, state(&output, "descriptors")), (Some(0), "doubtful".to_owned()), "{output:?}");
    assert!(!Home::new().set("http.connections_max", "10").run(&["check"]).said().contains("ulimit"));
}
