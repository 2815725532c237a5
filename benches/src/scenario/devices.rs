//! Polls of computers that wait to be attached.

use std::time::Duration;

use bytes::Bytes;
use domain::device::CODE_SECONDS;
use domain::secret::{Secret, SecretKind};
use domain::{Chance, Clock, Timestamp};
use serde_json::json;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, QueryBuilder, Sqlite, SqliteConnection};
use uuid::Uuid;

use super::Scenario;
use crate::floor::Floor;
use crate::plan::{self, Plan};
use crate::product::Product;
use crate::{Options, Result, client};

/// `device/token`, pending, while this many computers wait: answered by an actor that does not ask the store.
#[derive(Debug)]
pub struct DevicePoll {
    name: &'static str,
    waiting: usize,
    polls: Vec<Bytes>,
}

impl DevicePoll {
    /// With this many codes that wait.
    pub fn of(name: &'static str, waiting: usize) -> Self {
        Self { name, waiting, polls: Vec::new() }
    }
}

impl Scenario for DevicePoll {
    fn name(&self) -> &'static str {
        self.name
    }

    fn goals(&self) -> &'static [(Floor, f64)] {
        &[(Floor::Bare, 0.80)]
    }

    /// Both `authorization_pending` and, where there are too few codes for so many polls, `slow_down`: the actor does the same for either.
    fn status(&self) -> u16 {
        400
    }

    fn prepare(&mut self, product: &Product, options: &Options) -> Result<()> {
        const CONNECTIONS: usize = 32;
        self.polls = waiting(product, self.waiting, options.seed)?;
        // From now on each has its actor.
        client::send_all(product.address, &self.polls, CONNECTIONS).map(drop)
    }

    fn plan(&mut self, _round: u32, options: &Options) -> Result<Plan> {
        Ok(Plan::dealt(&self.polls, options.connections, options.seconds))
    }
}

/// Makes computers that wait for a person, and gives the poll of each. Written straight into the file of the living server: asking for
/// each over HTTP is a commit, and 100,000 of them are not what is measured.
pub fn waiting(product: &Product, count: usize, seed: u64) -> Result<Vec<Bytes>> {
    let chance = Chance::seeded(seed);
    let now = Clock::system().now();
    let codes: Vec<Waiting> = (0..count).map(|_| Waiting::draw(&chance, now)).collect();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(write(product, &codes, now))?;
    Ok(codes.iter().map(|code| device_poll(code.device_code.expose())).collect())
}

struct Waiting {
    machine: Uuid,
    user_cuid: String,
    secret: [u8; 32],
    device_code: Secret,
    sealed_user_code: [u8; 32],
}

impl Waiting {
    fn draw(chance: &Chance, now: Timestamp) -> Self {
        Self {
            machine: chance.uuid_v7(now),
            user_cuid: chance.cuid2(),
            secret: chance.bytes(),
            device_code: Secret::mint(SecretKind::DeviceCode, chance),
            sealed_user_code: chance.bytes(),
        }
    }
}

async fn write(product: &Product, codes: &[Waiting], now: Timestamp) -> Result<()> {
    /// Far below the number of parameters that a statement may have.
    const CHUNK: usize = 1000;
    let expires_at = now + Duration::from_secs(CODE_SECONDS.unsigned_abs());
    let options = SqliteConnectOptions::new()
        .filename(product.database())
        .foreign_keys(true)
        .busy_timeout(Duration::from_mins(1));
    let mut connection = SqliteConnection::connect_with(&options).await?;
    for chunk in codes.chunks(CHUNK) {
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        let mut identities = QueryBuilder::<Sqlite>::new("INSERT INTO identities (user_cuid, created_at) ");
        identities.push_values(chunk, |mut row, code| {
            row.push_bind(&code.user_cuid).push_bind(now);
        });
        identities.build().execute(&mut *transaction).await?;
        let mut machines = QueryBuilder::<Sqlite>::new(
            "INSERT INTO machines (machine_uuid, user_cuid, secret_hash, first_seen_at, last_seen_at) ",
        );
        machines.push_values(chunk, |mut row, code| {
            row.push_bind(code.machine).push_bind(&code.user_cuid).push_bind(&code.secret[..]);
            row.push_bind(now).push_bind(now);
        });
        machines.build().execute(&mut *transaction).await?;
        let mut waiting = QueryBuilder::<Sqlite>::new(
            "INSERT INTO device_codes (device_code_hash, sealed_user_code, machine_uuid, user_cuid, created_at, expires_at,
                state, changed_at) ",
        );
        waiting.push_values(chunk, |mut row, code| {
            row.push_bind(code.device_code.hash().as_bytes().to_vec()).push_bind(&code.sealed_user_code[..]);
            row.push_bind(code.machine).push_bind(&code.user_cuid);
            row.push_bind(now).push_bind(expires_at).push_bind("pending").push_bind(now);
        });
        waiting.build().execute(&mut *transaction).await?;
        transaction.commit().await?;
    }
    Ok(connection.close().await?)
}

/// The poll of one computer.
fn device_poll(device_code: &str) -> Bytes {
    let body = json!({"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": device_code});
    plan::request("POST", "/api/v1/device/token", &["Content-Type: application/json"], body.to_string().as_bytes())
}
