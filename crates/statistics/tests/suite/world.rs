//! A separate log for each test, and events to append to it.

use std::time::Duration;

use bytes::Bytes;
use domain::envelope::{AgentKinds, Sealed};
use domain::ids::{MachineUuid, UserCuid};
use domain::recorder::{Recorder, Recorders};
use domain::{Clock, Rng, Timestamp};
use harness::event::Machine;
use harness::postgres::TestDatabase;
use serde_json::{Value, json};
use statistics::contract::{RecordScope, Submission};
use statistics::log::{Append, AppendOutcome, Log};
use store::{DatabaseSettings, Pool};
use tempfile::TempDir;

pub const ORIGIN: &str = "attache.test/log";

/// A log on an empty database.
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

    /// Another process that connects with this URL.
    pub async fn another_at(&self, url: &str) -> Log {
        let settings = DatabaseSettings { url: Some(url.to_owned()), ..DatabaseSettings::default() };
        let pool = Pool::open(&settings, &self.dir.path().join("statistics.db"), Some("statistics")).await.unwrap();
        Log::open(pool, ORIGIN, &Clock::system(), &Rng::system()).await.unwrap()
    }

    /// The URL of the database on PostgreSQL.
    pub fn url(&self) -> &str {
        &self.database.as_ref().unwrap().url
    }

    /// The database of the log, for tests that damage it.
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
    let settings = DatabaseSettings {
        url: database.map(|database| database.url.clone()),
        // Other suites run at the same time and use the processors. No test of this suite stops its server.
        silent_after: Duration::from_secs(10),
        ..DatabaseSettings::default()
    };
    Pool::open(&settings, &dir.path().join("statistics.db"), Some("statistics")).await.unwrap()
}

async fn open(dir: &TempDir, database: Option<&TestDatabase>, origin: &str) -> Result<Log, statistics::log::LogError> {
    Log::open(pool(dir, database).await, origin, &Clock::system(), &Rng::system()).await
}

/// An event that is received now.
pub fn append_of(event: &Value, rng: &Rng) -> Append {
    append_at(event, rng, Clock::system().now())
}

/// An event that is received at a certain time.
pub fn append_at(event: &Value, rng: &Rng, received_at: Timestamp) -> Append {
    Append::new(submission(event), rng.uuid_v7(received_at).into(), received_at)
}

/// The scope of the computer that an event names.
pub fn scope_of(event: &Value) -> RecordScope {
    let submission = submission(event);
    let shown = Recorders::of_computer(submission.machine, submission.identity.clone(), submission.part);
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
    serde_json::from_slice(include_bytes!("../../../../tests/vectors/chain.json")).unwrap()
}

/// A chain of a computer. Its events differ only in their position unless a test changes them.
#[derive(Debug, Clone)]
pub struct Chain(harness::event::Chain);

impl Chain {
    pub fn new(world: &World) -> Self {
        let (uuid, user_cuid) = world.machine();
        let machine = Machine { user_cuid: user_cuid.to_string(), uuid: uuid.to_string(), secret: String::new() };
        Self(harness::event::Chain::new(&machine))
    }

    /// The same chain, in a new epoch.
    pub fn again(&self, epoch: u64) -> Self {
        Self(self.0.at_epoch(epoch))
    }

    pub fn recorder(&self) -> Recorder {
        Recorder { machine: self.0.machine.uuid.parse().unwrap(), identity: self.identity() }
    }

    pub fn identity(&self) -> UserCuid {
        self.0.machine.user_cuid.parse().unwrap()
    }

    pub fn next(&mut self) -> Value {
        self.next_with(|_| {})
    }

    /// The next event, changed before it is sealed.
    pub fn next_with(&mut self, change: impl FnOnce(&mut Value)) -> Value {
        let seq = self.0.seq;
        self.0.next_with(|event| {
            event["ts_edge_ms"] = json!(1_767_225_600_000_i64);
            event["payload"] = json!({ "n": seq });
            change(event);
        })
    }
}
