//! A database that another process has locked for longer than `database.busy_timeout`.

use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Executor};

use crate::patient::{KINDS, Patient, home, is_soak, rounds};

async fn lock(patient: &Patient, name: &str) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(patient.home.data().join(name));
    let mut connection = options.busy_timeout(blackbox::TIME_LIMIT).connect().await.unwrap();
    connection.execute("BEGIN IMMEDIATE").await.unwrap();
    connection
}

async fn unlock(mut connection: SqliteConnection) {
    connection.execute("ROLLBACK").await.unwrap();
    connection.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_a_locked_database_refuses_requests_until_its_release() {
    let mut patient = Patient::begin(home()).await;
    for _ in 0..rounds() {
        for (name, part, kinds) in [("statistics.db", "log", &KINDS[..1]), ("attache.db", "store", &KINDS[1..])] {
            let connection = lock(&patient, name).await;
            patient.suffers(kinds, part).await;
            if is_soak() {
                tokio::time::sleep(Duration::from_secs(10)).await;
                patient.suffers(kinds, part).await;
            }
            unlock(connection).await;
            patient.recovers().await;
        }
    }
    patient.is_whole().await;
}
