//! Connections to PostgreSQL that are lost without a reset, and a PostgreSQL that accepts connections but does not respond: behind a relay,
//! at the start, during operation, and at the end.

use std::time::{Duration, Instant};

use blackbox::client::Client;
use blackbox::process::Home;
use harness::postgres::TestDatabase;
use harness::relay::Relay;
use sqlx::{Connection, PgConnection};

use crate::patient::{KINDS, Patient, home, is_soak, rounds};

/// A database and a relay before it, if there is PostgreSQL.
async fn behind_relay() -> Option<(TestDatabase, Relay)> {
    let database = harness::postgres::database().await?;
    let relay = Relay::before(&database.url).await;
    Some((database, relay))
}

/// Asserts a promise in seconds in long runs only, with a margin for a busy computer.
fn was_within(promised: Duration, begun: Instant, deed: &str) {
    let took = begun.elapsed();
    eprintln!("{deed} took {took:?}");
    assert!(!is_soak() || took <= promised + Duration::from_secs(2), "{deed} took {took:?} instead of {promised:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_open_connections_that_become_black_holes_are_replaced_without_a_restart() {
    let Some((_database, relay)) = behind_relay().await else { return };
    let mut patient = Patient::begin(home().set("database.url", &relay.url)).await;
    for _ in 0..rounds() {
        relay.lose_open_connections();
        let begun = Instant::now();
        while !patient.works("event").await {}
        was_within(Duration::from_secs(3), begun, "taking an event after all connections were lost");
        patient.recovers().await;
        relay.freeze();
        patient.suffers(&KINDS, "store").await;
        relay.thaw();
        patient.recovers().await;
    }
    patient.is_whole().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_against_a_database_that_does_not_answer_ends_with_its_cause_or_by_a_signal() {
    let Some((_database, relay)) = behind_relay().await else { return };
    relay.freeze();
    let home = Home::new().set("database.url", &relay.url);
    let address = relay.url.split(['@', '/']).nth(3).unwrap();
    for command in [&["serve"][..], &["migrate"], &["admin", "account", "list"]] {
        home.run(command).refused(1, &["cannot be opened", address, "did not answer within 3s"]);
    }
    let begun = Instant::now();
    let doctor = home.run(&["doctor"]);
    assert!(doctor.code == Some(1) && doctor.stdout.contains("did not answer within 3s"), "{doctor:?}");
    was_within(Duration::from_secs(6), begun, "`attache doctor`");

    let patient = home.set("database.connect_timeout", "1h");
    for signal in ["TERM", "INT"] {
        let before = relay.accepted();
        let mut starting = patient.spawn("");
        relay.accepts(before + 1).await;
        starting.signal(signal);
        let begun = Instant::now();
        assert_eq!(starting.exit().await.code(), Some(0), "{}", starting.stderr.text());
        was_within(Duration::from_secs(1), begun, "ending by a signal before the server was ready");
    }
    relay.thaw();
    patient.run(&["migrate"]).said();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_stops_within_its_deadline_although_the_database_does_not_answer() {
    let Some((_database, relay)) = behind_relay().await else { return };
    let home = Home::new().set("database.url", &relay.url).set("shutdown.drain_deadline", "5s");
    let uuids = ["0190a7c0-0000-7000-8000-000000000000", "0190a7c0-0000-7000-8000-000000000001"];
    for (is_lost, uuid) in [true, false].into_iter().zip(uuids) {
        let mut server = home.serve().await;
        Client::new().machine(&server.url, "clh3b2x9k0000abcd1234efgh", uuid).await;
        if is_lost {
            relay.lose_open_connections();
        } else {
            relay.freeze();
        }
        server.process.signal("TERM");
        let begun = Instant::now();
        let status = server.process.exit().await;
        was_within(Duration::from_secs(6), begun, "stopping");
        assert!(matches!(status.code(), Some(0 | 1)), "{status}: {}", server.process.stderr.text());
        relay.thaw();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_has_no_more_connections_than_its_maximum() {
    const MAX: i64 = 5;
    let Some(database) = harness::postgres::database().await else { return };
    let home = home().set("database.url", &database.url).set("database.connections_max", &MAX.to_string());
    let mut patient = Patient::begin(home).await;
    let mut observer = PgConnection::connect(&database.url).await.unwrap();
    let mut most = 0;
    for _ in 0..40 {
        for kind in KINDS {
            patient.works(kind).await;
        }
        let open = open_connections(&mut observer).await;
        most = most.max(open);
        if open > MAX {
            // The server takes a moment to see that a connection is closed.
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert!(open_connections(&mut observer).await <= MAX);
        }
    }
    eprintln!("{most} connections at most");
    assert!(most > 0);
    patient.is_whole().await;
}

async fn open_connections(observer: &mut PgConnection) -> i64 {
    const SQL: &str = "SELECT COUNT(*) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'attache'";
    sqlx::query_scalar(SQL).fetch_one(observer).await.unwrap()
}
