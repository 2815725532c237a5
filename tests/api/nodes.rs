//! Several servers on one PostgreSQL database: their knowledge of each other, and the statements of an idle one.

use std::time::{Duration, Instant};

use chrono::TimeDelta;
use domain::Clock;
use domain::node::{NodeRecord, SILENT_AFTER};
use reqwest::StatusCode;
use serde_json::{Value, json};
use store::pool::{query, scalar, script};

use blackbox::eventually;
use blackbox::world::{Person, World};

/// More than twice the promised delay until another node reads a change, and less than the interval after which a node reads again without
/// a notification (30 s).
const SEEN_WITHIN: Duration = Duration::from_secs(10);

/// Statements of an idle node, per second.
const IDLE_STATEMENTS_MAX: f64 = 5.0;

async fn readiness(world: &World) -> (StatusCode, Value) {
    let response = reqwest::get(format!("http://{}/readyz", world.server.admin_address)).await.unwrap();
    (response.status(), response.json().await.unwrap())
}

async fn nodes(world: &World) -> Vec<NodeRecord> {
    world.server.app.store.nodes(world.clock().now()).await.unwrap()
}

/// Approves a code on a node other than the one that polls it; returns when the polling node has read the approval.
async fn approved_elsewhere(polling: &World, approving: &World, person: &Person) {
    let machine = polling.machine().await;
    let code = polling.device_code(&machine).await.expect(200);
    let device_code = code["device_code"].as_str().unwrap();
    polling.device_token(device_code).await.refused(400, "authorization_pending");
    approving.device_approve(&person.cookie, code["user_code"].as_str().unwrap()).await.expect(200);
    let seen = async {
        loop {
            let polled = polling.device_token(device_code).await.json();
            if polled.get("status") == Some(&json!("claimed")) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(SEEN_WITHIN, seen).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_by_a_node_with_a_wrong_clock_is_seen_soon() {
    let Some(world) = World::on_postgres().await else { return };
    let person = world.person("ada@example.com").await;
    for notify in [true, false] {
        for seconds in [-60, 60] {
            let clock = Clock::wrong_by(TimeDelta::seconds(seconds));
            let other = world.beside_with(clock, |settings| settings.database.notify = notify).await;
            approved_elsewhere(&world, &other, &person).await;
            approved_elsewhere(&other, &world, &person).await;
            other.server.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_connection_that_listens_changes_are_polled_until_another_listens() {
    let Some(world) = World::on_postgres().await else { return };
    let other = world.beside().await;
    let person = world.person("ada@example.com").await;
    approved_elsewhere(&world, &other, &person).await;
    let listening = async || {
        const SQL: &str =
            "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%LISTEN%'
            AND pid <> pg_backend_pid()";
        let listening: i64 = scalar(SQL).fetch_one(world.server.app.store.pool()).await.unwrap();
        listening
    };
    let terminate = "DO $$ BEGIN PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND (query LIKE 'LISTEN%' OR query = 'SELECT 1'); END $$";
    script(terminate).execute(world.server.app.store.pool().writer()).await.unwrap();
    approved_elsewhere(&world, &other, &person).await;
    eventually("both listen again", async || (listening().await >= 2).then_some(())).await;
    approved_elsewhere(&world, &other, &person).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn differing_nodes_are_degradations_and_a_node_that_stops_leaves() {
    let Some(world) = World::on_postgres().await else { return };
    let clock = Clock::wrong_by(TimeDelta::seconds(-60));
    let other = world.beside_with(clock, |settings| settings.account.section_deadline = Duration::from_secs(7)).await;
    let body = eventually("the first node sees both differences", async || {
        let (status, body) = readiness(&world).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        (body["degraded"].as_array().unwrap().len() == 2).then_some(body)
    })
    .await;
    let degraded = body["degraded"].to_string();
    let address = other.server.admin_address.to_string();
    // The clock is read some time before the database's.
    for part in [
        "\"nodes\"",
        "has other settings: account.section_deadline; digest",
        " is 60.",
        " s behind the database's",
        &address,
    ] {
        assert!(degraded.contains(part), "{part:?} is missing: {degraded}");
    }
    assert_eq!((&body["upstream"], body["nodes"].as_array().unwrap().len()), (&json!("ok"), 1), "{body}");
    assert_eq!(body["nodes"][0]["operator_address"], json!(address));
    let metrics = reqwest::get(format!("http://{}/metrics", world.server.admin_address)).await.unwrap();
    let metrics = metrics.text().await.unwrap();
    for metric in ["attache_nodes ", "attache_node_clock_offset_seconds ", "attache_changes_listening "] {
        assert!(metrics.lines().any(|line| line.starts_with(metric)), "{metric} is missing");
    }

    assert_eq!(nodes(&world).await.len(), 2);
    other.server.stop().await;
    assert_eq!(nodes(&world).await.len(), 1);
    eventually("the difference has ended", async || {
        let (_, body) = readiness(&world).await;
        (body["degraded"] == json!([]) && body["nodes"] == json!([])).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_falls_silent_is_a_degradation() {
    let Some(world) = World::on_postgres().await else { return };
    eventually("the node has a row", async || (nodes(&world).await.len() == 1).then_some(())).await;
    // A process that was killed leaves its row.
    let silent = "INSERT INTO nodes SELECT gen_random_uuid(), 'gone', address, '10.0.0.9:8081', version, configuration, settings,
        started_at, last_beat_at - INTERVAL '1 minute', 0, NULL, FALSE, FALSE, 0, crashed_keys, tree FROM nodes";
    query(silent).execute(world.server.app.store.pool().writer()).await.unwrap();
    assert!(nodes(&world).await.iter().any(|node| node.is_silent() && node.silent_for > SILENT_AFTER));
    eventually("the silence is reported", async || {
        let (status, body) = readiness(&world).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        body["degraded"].to_string().contains("gone (10.0.0.9:8081) has been silent since").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_node_costs_the_database_few_statements() {
    let Some(cluster) = harness::postgres::cluster().await else { return };
    let mut database = harness::postgres::connect(&cluster.url).await;
    let preload = "ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'";
    sqlx::raw_sql(preload).execute(&mut database).await.unwrap();
    drop(database);
    cluster.stop("fast");
    cluster.start();
    let mut database = harness::postgres::connect(&cluster.url).await;
    if let Err(error) = sqlx::raw_sql("CREATE EXTENSION pg_stat_statements").execute(&mut database).await {
        eprintln!("SKIPPED: no pg_stat_statements ({error}): this test has shown nothing");
        return;
    }
    let world = World::with(|settings| {
        settings.database.url = Some(cluster.url.clone());
        settings.log = app::config::LogSettings::default();
    })
    .await;
    // Actors without work rest after up to 8 s, and look for it every 20 s.
    let (rest, seconds) = (10, 20_u32);
    // On a busy machine a step lasts longer than its second, so the rate is of the time that passed.
    let mut idle_since = Instant::now();
    // A starting server needs time to become idle; a balancer requests its readiness continuously.
    for second in 0..rest + seconds {
        if second == rest {
            sqlx::raw_sql("SELECT pg_stat_statements_reset()").execute(&mut database).await.unwrap();
            idle_since = Instant::now();
        }
        assert_eq!(readiness(&world).await.0, StatusCode::OK);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let calls: Vec<(i64, String)> = sqlx::query_as(
        "SELECT calls, regexp_replace(left(query, 120), '\\s+', ' ', 'g') FROM pg_stat_statements ORDER BY calls DESC",
    )
    .fetch_all(&mut database)
    .await
    .unwrap();
    let passed = idle_since.elapsed();
    let lines: Vec<String> = calls.iter().map(|(calls, statement)| format!("{calls:5} {statement}")).collect();
    let count = calls.iter().map(|(calls, _)| u32::try_from(*calls).unwrap()).sum::<u32>();
    let rate = f64::from(count) / passed.as_secs_f64();
    println!("{rate:.2} statements per second\n{}", lines.join("\n"));
    assert!(rate <= IDLE_STATEMENTS_MAX, "{rate:.2} statements per second\n{}", lines.join("\n"));
}
