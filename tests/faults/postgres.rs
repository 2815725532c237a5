//! A PostgreSQL that is stopped and started again.

use std::time::Duration;

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
