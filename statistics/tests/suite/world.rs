//! A log of its own for every law, and events to put into it.

use bytes::Bytes;
use domain::envelope::{AgentKinds, Sealed};
use domain::ids::{MachineUuid, UserCuid};
use domain::recorder::{Recorder, Recorders};
use domain::{Clock, Digest, Rng, canonical};
use harness::postgres::TestDatabase;
use serde_json::{Value, json};
use statistics::contract::{RecordScope, Submission};
use statistics::log::{Append, AppendOutcome, Log};
use store::{DatabaseSettings, Pool};
use tempfile::TempDir;

pub const ORIGIN: &str = "attache.test/log";

/// Runs each law on SQLite and on PostgreSQL.
macro_rules! laws {
    ($($(#[$meta:meta])* async fn $name:ident($world:ident: World) $body:block)*) => {$(
        mod $name {
            use super::*;

            $(#[$meta])*
            async fn law($world: World) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                law(World::on_sqlite().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                if let Some(world) = World::on_postgres().await {
                    law(world).await;
                }
            }
        }
    )*};
}
pub(crate) use laws;

pub struct World {
    pub log: Log,
    pub rng: Rng,
    dir: TempDir,
    database: Option<TestDatabase>,
}

impl World {
    pub async fn on_sqlite() -> Self {
        Self::open(None).await
    }

    pub async fn on_postgres() -> Option<Self> {
        Some(Self::open(Some(harness::postgres::database().await?)).await)
    }

    async fn open(database: Option<TestDatabase>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let rng = Rng::system();
        let log = open(&dir, database.as_ref(), ORIGIN).await.unwrap();
        Self { log, rng, dir, database }
    }

    /// Another process with the same log.
    pub async fn another(&self, origin: &str) -> Result<Log, statistics::log::LogError> {
        open(&self.dir, self.database.as_ref(), origin).await
    }

    /// The database under the log, for tests that spoil it.
    pub async fn pool(&self) -> Pool {
        pool(&self.dir, self.database.as_ref()).await
    }

    /// Overwrites the stored tiles of the lowest level.
    pub async fn forge_tiles(&self) {
        let forgery = store::pool::query("UPDATE tiles SET hashes = $1 WHERE level = 0").bind(vec![7_u8; 96]);
        forgery.execute(self.pool().await.writer()).await.unwrap();
    }

    pub fn machine(&self) -> (MachineUuid, UserCuid) {
        let uuid = self.rng.uuid_v7(Clock::system().now()).into();
        (uuid, self.rng.cuid2().parse().unwrap())
    }

    pub fn append(&self, event: &Value) -> Append {
        append_of(event, &self.rng)
    }

    pub async fn take(&self, event: &Value) -> AppendOutcome {
        self.log.append(&[self.append(event)]).await.unwrap().remove(0)
    }
}

async fn pool(dir: &TempDir, database: Option<&TestDatabase>) -> Pool {
    let settings =
        DatabaseSettings { url: database.map(|database| database.url.clone()), ..DatabaseSettings::default() };
    Pool::open(&settings, &dir.path().join("statistics.db"), Some("statistics")).await.unwrap()
}

async fn open(dir: &TempDir, database: Option<&TestDatabase>, origin: &str) -> Result<Log, statistics::log::LogError> {
    Log::open(pool(dir, database).await, origin, &Clock::system(), &Rng::system()).await
}

/// An event that is received now.
pub fn append_of(event: &Value, rng: &Rng) -> Append {
    let now = Clock::system().now();
    Append::new(submission(event), rng.uuid_v7(now).into(), now)
}

/// The scope of the computer that an event names.
pub fn scope_of(event: &Value) -> RecordScope {
    let submission = submission(event);
    let shown = Recorders::of_computer(submission.machine, submission.identity.clone());
    RecordScope { account: None, identities: vec![submission.identity], machine: Some(submission.machine), shown }
}

fn submission(event: &Value) -> Submission {
    let body = Bytes::from(event.to_string());
    let sealed = Sealed::open(&body, usize::MAX, &AgentKinds::new(["codex".to_owned()])).unwrap();
    let scope = RecordScope {
        account: None,
        identities: vec![sealed.envelope.scope.user_id.clone()],
        machine: Some(sealed.envelope.scope.machine_id),
        ..RecordScope::default()
    };
    Submission::new(body, sealed, scope)
}

/// The vectors of chains.
pub fn vectors() -> Value {
    serde_json::from_slice(include_bytes!("../../../tests/vectors/chain.json")).unwrap()
}

/// One chain, growing.
#[derive(Debug, Clone)]
pub struct Chain {
    machine: (MachineUuid, UserCuid),
    epoch: u64,
    seq: u64,
    prev: String,
    rng: Rng,
}

impl Chain {
    pub fn new(world: &World) -> Self {
        Self { machine: world.machine(), epoch: 0, seq: 0, prev: "GENESIS".into(), rng: world.rng.clone() }
    }

    /// The same chain, in a new epoch.
    pub fn again(&self, epoch: u64) -> Self {
        Self { epoch, seq: 0, prev: "GENESIS".into(), ..self.clone() }
    }

    pub fn recorder(&self) -> Recorder {
        Recorder { machine: self.machine.0, identity: self.machine.1.clone() }
    }

    pub fn identity(&self) -> UserCuid {
        self.machine.1.clone()
    }

    pub fn next(&mut self) -> Value {
        self.next_with(|_| {})
    }

    /// The next event, changed before it is sealed.
    pub fn next_with(&mut self, change: impl FnOnce(&mut Value)) -> Value {
        let mut event = json!({
            "schema_version": "v1",
            "event_id": self.rng.uuid_v7(Clock::system().now()),
            "event_type": "memory.stored",
            "lane": "memory",
            "ts_edge_ms": 1_767_225_600_000_i64,
            "consent_level": "full",
            "redacted": false,
            "chain_epoch": self.epoch,
            "seq": self.seq,
            "scope": { "user_id": self.machine.1, "machine_id": self.machine.0, "agent_id": "svc-cli" },
            "hash_chain": { "prev": self.prev },
            "payload": { "n": self.seq },
        });
        change(&mut event);
        let members = canonical::parse_object(event.to_string().as_bytes(), usize::MAX).unwrap();
        self.prev = Digest::of(&canonical::canonical_bytes(&members)).to_string();
        event["hash_chain"]["self"] = json!(self.prev);
        self.seq += 1;
        event
    }
}
