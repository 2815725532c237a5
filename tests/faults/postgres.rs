//! A PostgreSQL that is stopped and started again.

use std::time::Duration;

use harness::relay::Relay;
use sqlx::PgConnection;

use crate::patient::{KINDS, Patient, home, is_soak, rounds};

#[tokio::test(flavor = "multi_thread")]
async fn soak_a_postgres_that_stops_refuses_everything_and_its_start_heals_it() {
    let Some(cluster) = harness::postgres::cluster().await else { return };
    let mut patient = Patient::begin(home().set("database.url", &cluster.url)).await;
    for round in 0..rounds() {
        // Sessions are ended in good order, or cut off as in a crash.
        cluster.stop(if round % 2 == 0 { "fast" } else { "immediate" });
        patient.suffers(&KINDS, "store").await;
        if is_soak() {
            tokio::time::sleep(Duration::from_secs(5)).await;
            patient.suffers(&KINDS, "store").await;
        }
        cluster.start();
        patient.recovers().await;
    }
    patient.is_whole().await;
}

/// As a host name that temporarily resolves to a standby after a switch-over, with all connections closed.
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_behind_the_name_refuses_everything_and_the_primary_heals_it() {
    let Some(primary) = harness::postgres::cluster().await else { return };
    let relay = Relay::before(&primary.url).await;
    let mut patient = Patient::begin(home().set("database.url", &relay.url)).await;
    let standby = primary.standby();
    primary.wait_for(&standby).await;
    let mut observer = harness::postgres::connect(&primary.url).await;
    for _ in 0..rounds() {
        relay.leads_to(&standby.url);
        end_sessions(&mut observer).await;
        patient.suffers(&KINDS, "store").await;
        relay.leads_to(&primary.url);
        patient.recovers().await;
    }
    patient.is_whole().await;
}

/// Ends the sessions of the server under test.
async fn end_sessions(observer: &mut PgConnection) {
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'attache'";
    sqlx::raw_sql(end).execute(observer).await.unwrap();
}
