//! Writes computers and codes into the database of a running server, because the time of 100,000 registrations over HTTP,
//! with a commit each, is not measured.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use domain::device::CODE_SECONDS;
use domain::secret::{Secret, SecretKind};
use domain::{Clock, Rng, Timestamp};
use serde_json::json;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, QueryBuilder, Sqlite, SqliteConnection};
use uuid::Uuid;

use crate::event::Machine;
use crate::options::Result;
use crate::plan;

/// Rows per statement, far below the maximum number of parameters.
const CHUNK: usize = 1000;

/// A computer to insert.
struct Computer {
    uuid: Uuid,
    user_cuid: String,
    secret: Secret,
}

/// Inserts registered computers.
pub fn machines(database: &Path, count: usize, seed: u64) -> Result<Vec<Machine>> {
    let computers = draw(count, seed);
    run(async {
        let mut connection = connect(database).await?;
        for chunk in computers.chunks(CHUNK) {
            let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
            add_machines(&mut transaction, chunk).await?;
            transaction.commit().await?;
        }
        Ok(connection.close().await?)
    })?;
    Ok(computers.iter().map(Computer::known).collect())
}

/// Inserts computers with pending codes, and returns the poll of each.
pub fn waiting(database: &Path, count: usize, seed: u64) -> Result<Vec<Bytes>> {
    let rng = Rng::seeded(seed ^ 0x6465_7669_6365);
    let now = Clock::system().now();
    let expires_at = now + Duration::from_secs(CODE_SECONDS.unsigned_abs());
    let computers = draw(count, seed);
    let codes: Vec<(Secret, [u8; 32])> =
        (0..count).map(|_| (Secret::mint(SecretKind::DeviceCode, &rng), rng.bytes())).collect();
    run(async {
        let mut connection = connect(database).await?;
        for (chunk, codes) in computers.chunks(CHUNK).zip(codes.chunks(CHUNK)) {
            let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
            add_machines(&mut transaction, chunk).await?;
            let mut waiting = QueryBuilder::<Sqlite>::new(
                "INSERT INTO device_codes (device_code_hash, sealed_user_code, machine_uuid, user_cuid, created_at, expires_at,
                    state, changed_at) ",
            );
            waiting.push_values(chunk.iter().zip(codes), |mut row, (computer, (device_code, sealed_user_code))| {
                row.push_bind(device_code.hash().as_bytes().to_vec()).push_bind(&sealed_user_code[..]);
                row.push_bind(computer.uuid).push_bind(&computer.user_cuid);
                row.push_bind(now).push_bind(expires_at).push_bind("pending").push_bind(now);
            });
            waiting.build().execute(&mut *transaction).await?;
            transaction.commit().await?;
        }
        Ok(connection.close().await?)
    })?;
    Ok(codes.iter().map(|(device_code, _)| device_poll(device_code.expose())).collect())
}

/// The ids of the held events.
pub fn held(database: &Path) -> Result<std::collections::HashSet<Uuid>> {
    run(async {
        let mut connection = connect(database).await?;
        let ids: Vec<Uuid> = sqlx::query_scalar("SELECT event_id FROM held_events WHERE event_id IS NOT NULL")
            .fetch_all(&mut connection)
            .await?;
        connection.close().await?;
        Ok(ids.into_iter().collect())
    })
}

impl Computer {
    fn known(&self) -> Machine {
        let secret = self.secret.expose().to_owned();
        Machine { user_cuid: self.user_cuid.clone(), uuid: self.uuid.to_string(), secret }
    }
}

fn draw(count: usize, seed: u64) -> Vec<Computer> {
    let rng = Rng::seeded(seed);
    let now = Clock::system().now();
    let computer = |_| Computer {
        uuid: rng.uuid_v7(now),
        user_cuid: rng.cuid2(),
        secret: Secret::mint(SecretKind::Machine, &rng),
    };
    (0..count).map(computer).collect()
}

fn run<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

async fn connect(database: &Path) -> Result<SqliteConnection> {
    let options =
        SqliteConnectOptions::new().filename(database).foreign_keys(true).busy_timeout(Duration::from_mins(1));
    Ok(SqliteConnection::connect_with(&options).await?)
}

async fn add_machines(connection: &mut SqliteConnection, computers: &[Computer]) -> Result<()> {
    let now: Timestamp = Clock::system().now();
    let mut identities = QueryBuilder::<Sqlite>::new("INSERT INTO identities (user_cuid, created_at) ");
    identities.push_values(computers, |mut row, computer| {
        row.push_bind(&computer.user_cuid).push_bind(now);
    });
    identities.build().execute(&mut *connection).await?;
    let mut machines = QueryBuilder::<Sqlite>::new(
        "INSERT INTO machines (machine_uuid, user_cuid, secret_hash, first_seen_at, last_seen_at) ",
    );
    machines.push_values(computers, |mut row, computer| {
        row.push_bind(computer.uuid)
            .push_bind(&computer.user_cuid)
            .push_bind(computer.secret.hash().as_bytes().to_vec());
        row.push_bind(now).push_bind(now);
    });
    machines.build().execute(&mut *connection).await?;
    Ok(())
}

/// The poll of a device code.
fn device_poll(device_code: &str) -> Bytes {
    let body = json!({"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": device_code});
    plan::request("POST", "/api/v1/device/token", &["Content-Type: application/json"], body.to_string().as_bytes())
}
