//! Nodes that stop and start one after the other under a steady load, while the others serve.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;

use crate::balancer::Balancer;
use blackbox::client::Client;
use blackbox::process::{Home, Server};
use blackbox::stream::Stream;
use blackbox::{eventually, flow, library};
use harness::event::{Chain, Machine};

struct Scale {
    nodes: usize,
    senders: usize,
    requests: u64,
}

impl Scale {
    fn chosen() -> Self {
        if std::env::var("ATTACHE_SOAK").is_ok_and(|value| value == "1") {
            Self { nodes: 3, senders: 8, requests: 20_000 }
        } else {
            Self { nodes: 2, senders: 4, requests: 600 }
        }
    }
}

/// The requests that were sent, and whether more are to be.
#[derive(Default)]
struct Load {
    ends: AtomicBool,
    sent: AtomicU64,
    receipts: AtomicU64,
}

/// Sends events of one chain and reads their activity, each request after the response to the one before. Returns every failure.
async fn send(balancer: Arc<Balancer>, load: Arc<Load>, machine: Machine) -> Vec<String> {
    let mut chain = Chain::new(&machine);
    let mut failures = Vec::new();
    while !load.ends.load(Ordering::Relaxed) {
        let event = chain.next().to_string();
        let head = format!("Host: localhost\r\nAuthorization: Bearer {}\r\n", machine.secret);
        let length = event.len();
        let recorded = format!(
            "POST /api/v1/events HTTP/1.1\r\n{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{event}"
        );
        let shown = format!("GET /api/v1/activity?limit=1 HTTP/1.1\r\n{head}\r\n");
        for (request, expected, text) in [(recorded, 202, "\"receipt_id\""), (shown, 200, "\"events\"")] {
            load.sent.fetch_add(1, Ordering::Relaxed);
            match balancer.send(&request).await {
                Ok((status, answer)) if status == expected && answer.contains(text) => {
                    load.receipts.fetch_add(u64::from(status == 202), Ordering::Relaxed);
                }
                other => failures.push(format!("{other:?}")),
            }
        }
        if failures.len() > 5 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    failures
}

/// A node's home on this database. It leaves slowly enough for the checks of the balancer.
fn node(database: &str) -> Home {
    Home::new().set("database.url", database).set("shutdown.lame_duck", "2s")
}

async fn run(database: &str, sql: &'static str) {
    let mut connection = PgConnection::connect(database).await.unwrap();
    sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_a_rolling_restart_behind_a_balancer_without_retries_fails_no_request() {
    let Some(database) = harness::postgres::database().await else { return };
    let scale = Scale::chosen();
    let homes: Vec<Home> = (0..scale.nodes).map(|_| node(&database.url)).collect();
    let mut servers: Vec<Server> = Vec::new();
    for home in &homes {
        servers.push(home.serve().await);
    }
    let balancer = Arc::new(Balancer::new(&servers));
    for number in 0..scale.nodes {
        eventually("the node is ready", async || balancer.is_ready(number).then_some(())).await;
    }
    let (load, client) = (Arc::new(Load::default()), Client::new());
    let mut senders = JoinSet::new();
    for _ in 0..scale.senders {
        let machine = client.machine(&servers[0].url, "tz4a98xxat96iws9zmbrgj3a", &flow::uuid()).await;
        senders.spawn(send(Arc::clone(&balancer), Arc::clone(&load), machine));
    }
    let mut restarts = 0;
    while restarts < scale.nodes || load.sent.load(Ordering::Relaxed) < scale.requests {
        let number = restarts % scale.nodes;
        let before = load.sent.load(Ordering::Relaxed);
        servers[number].process.signal("TERM");
        let status = servers[number].process.exit().await;
        assert_eq!(status.code(), Some(0), "{}", servers[number].process.stderr.text());
        // Half of the nodes start again after a newer version has migrated both schemas, as in an upgrade that is undone.
        if restarts == 0 {
            run(
                &database.url,
                "ALTER TABLE heartbeat ADD COLUMN later BIGINT;
                INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                SELECT version + 1, 'later for servers from ' || version, success, checksum, 0 FROM _sqlx_migrations
                WHERE version = (SELECT MAX(version) FROM _sqlx_migrations);
                SET search_path TO statistics;
                INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                SELECT version + 1, 'later for servers from ' || version, success, checksum, 0 FROM _sqlx_migrations
                WHERE version = (SELECT MAX(version) FROM _sqlx_migrations)",
            )
            .await;
        }
        servers[number] = homes[number].serve().await;
        balancer.replace(number, &servers[number]);
        eventually("the node is ready again", async || balancer.is_ready(number).then_some(())).await;
        let during = load.sent.load(Ordering::Relaxed);
        assert!(during > before, "the others served nothing while node {number} was restarted");
        restarts += 1;
    }
    load.ends.store(true, Ordering::Relaxed);
    let failures: Vec<String> = senders.join_all().await.into_iter().flatten().collect();
    let (sent, receipts) = (load.sent.load(Ordering::Relaxed), load.receipts.load(Ordering::Relaxed));
    eprintln!(
        "{sent} requests, {receipts} receipts, {restarts} restarts, answered by each node: {:?}",
        balancer.answered()
    );
    assert!(failures.is_empty(), "{} of {sent} requests failed: {failures:#?}", failures.len());
    assert!(balancer.answered().iter().all(|answered| *answered > 0), "{:?}", balancer.answered());
    // A newer version whose migration is not for this one.
    run(&database.url, "UPDATE _sqlx_migrations SET description = 'later' WHERE description LIKE 'later for%'").await;
    homes[0].run(&["serve"]).refused(1, &["is not for it", "(later)", "newer version"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_a_node_that_stops_is_continued_by_another_at_once() {
    const NOTES: usize = 200;
    let Some(database) = harness::postgres::database().await else { return };
    // A lease that no test waits for: the other node may continue only because it is given back.
    let home =
        || node(&database.url).set("knowledge.batch.lease", "1h").set("knowledge.base_url", "http://attache.test");
    let (one, other) = (home(), home());
    let key = library::key_of(&one);
    let (mut first, second) = (one.serve().await, other.serve().await);
    let add = library::request(&first, &key, reqwest::Method::POST, "/v1/batch-add").json(&library::notes(NOTES));
    let mut stream = Stream::open(add.send().await.unwrap()).await;
    let batch = stream.batch.clone();
    let mut messages = vec![stream.next().await.unwrap(), stream.next().await.unwrap()];
    // From a terminal: the lame duck is left out.
    first.process.signal("INT");
    while let Some(message) = stream.next_or_cut().await {
        messages.push(message);
    }
    assert_ne!(messages.last().unwrap()["type"], "complete", "the batch ended before the node did");
    let last = stream.last.clone();
    messages.extend(library::rejoin(&second, &key, &batch, last.as_deref()).await.rest().await);
    library::assert_stored(&second, &key, &messages).await;
    assert_eq!(first.process.exit().await.code(), Some(0), "{}", first.process.stderr.text());
    assert!(first.process.stderr.text().contains("the lease of a batch was given back"));
}
