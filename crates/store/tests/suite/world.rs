//! A separate database for each test, and its initial rows.

use std::path::PathBuf;

use chrono::TimeDelta;
use domain::claim::{ATTEMPT_SECONDS, Attempt, AttemptState, Claim, Registration, RegistrationType};
use domain::confirm::ConfirmedVia;
use domain::ids::{Email, EventId, HeldId, MachineUuid, PersonId, ReceiptId, RegistrationId, UserAccountId, UserCuid};
use domain::log_part::LogPart;
use domain::mail::OutgoingMail;
use domain::secret::{Secret, SecretHash, SecretKind};
use domain::signin::{CODE_SECONDS, SignInMethod, Ticket, TicketState};
use domain::{Rng, Timestamp};
use harness::postgres::TestDatabase;
use store::account::Person;
use store::chunk::near::prepare::NearVectorsState;
use store::machine::{NewMachine, Register};
use store::mail::QueuedMail;
use store::session::NewSession;
use store::{DatabaseSettings, Pool, Store};
use tempfile::TempDir;

/// A store on an empty database that is deleted with it.
pub struct World {
    pub store: Store,
    pub rng: Rng,
    pub settings: DatabaseSettings,
    /// The separate database of the memory, if there is one.
    pub memory: Option<DatabaseSettings>,
    pub folder: TempDir,
    /// Dropped last: open connections are ended.
    databases: Vec<TestDatabase>,
}

impl World {
    pub async fn on_sqlite() -> Self {
        Self::open(DatabaseSettings::default(), Vec::new()).await
    }

    pub async fn on_postgres() -> Option<Self> {
        Some(Self::on(harness::postgres::database().await?).await)
    }

    /// A database that compares vectors.
    pub async fn on_pgvector() -> Option<Self> {
        let world = Self::on(harness::postgres::database_with_pgvector().await?).await;
        assert_eq!(world.store.near_prepare().await.unwrap(), NearVectorsState::Filling);
        assert!(world.store.near_fill(1).await.unwrap(), "nothing is there to copy");
        Some(world)
    }

    /// The same, without prepared vector search.
    pub async fn on_unprepared_pgvector() -> Option<Self> {
        Some(Self::on(harness::postgres::database_with_pgvector().await?).await)
    }

    /// A main database, and a separate one for the memory.
    pub async fn on_memory_apart() -> Option<Self> {
        let mut world = Self::on_postgres().await?;
        let memory = harness::postgres::database().await?;
        world.store.installation_begin(world.rng.uuid_v7(now()).into()).await.unwrap();
        world.memory = Some(settings_of(&memory));
        world.store = world.second().await;
        world.databases.push(memory);
        Some(world)
    }

    async fn on(database: TestDatabase) -> Self {
        Self::open(settings_of(&database), vec![database]).await
    }

    async fn open(settings: DatabaseSettings, databases: Vec<TestDatabase>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&settings, &folder.path().join("attache.db")).await.unwrap();
        store.migrate().await.unwrap();
        store.check_schema().await.unwrap();
        Self { store, rng: Rng::seeded(1), settings, memory: None, folder, databases }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("attache.db")
    }

    /// The same database through separate connections, like another process.
    pub async fn second(&self) -> Store {
        let store = Store::open(&self.settings, &self.path()).await.unwrap();
        let Some(memory) = &self.memory else { return store };
        let store = store.with_memory_apart();
        store.memory_open(memory).await.unwrap();
        store
    }

    /// Runs a statement that the store never runs.
    pub async fn tamper(&self, sql: &'static str) {
        store::pool::script(sql).execute(self.store.pool().writer()).await.unwrap();
    }

    /// The database of the memory.
    pub fn memory(&self) -> &Pool {
        self.store.memory_apart().unwrap_or(self.store.pool())
    }

    /// The same as [`Self::tamper`] on the memory.
    pub async fn tamper_memory(&self, sql: &'static str) {
        store::pool::script(sql).execute(self.memory().writer()).await.unwrap();
    }

    /// Removes the tables of the log, which a database of the tests has on PostgreSQL.
    pub async fn without_log(&self) {
        if self.store.pool().is_postgres() {
            self.tamper("DROP SCHEMA statistics CASCADE").await;
        }
    }

    pub fn secret(&self) -> SecretHash {
        Secret::mint(SecretKind::Session, &self.rng).hash()
    }

    pub fn event(&self) -> EventId {
        self.rng.uuid_v7(now()).into()
    }

    pub fn receipt(&self) -> ReceiptId {
        self.rng.uuid_v7(now()).into()
    }

    /// Ids of later moments sort later.
    pub fn held_id(&self, at: Timestamp) -> HeldId {
        self.rng.uuid_v7(at).into()
    }

    pub fn cuid(&self) -> UserCuid {
        self.rng.cuid2().parse().unwrap()
    }

    pub async fn person(&self, address: &str) -> Person {
        self.store.person_sign_in(&email(address), true, now(), &self.rng).await.unwrap()
    }

    /// The account of a person.
    pub async fn account(&self, address: &str) -> UserAccountId {
        self.person(address).await.account.unwrap()
    }

    /// A session that is not stored yet.
    pub fn new_session(&self, person: PersonId, expires_at: Timestamp) -> NewSession<'static> {
        NewSession {
            token: self.secret(),
            id: self.rng.uuid_v7(now()).into(),
            person,
            via: SignInMethod::Code,
            address: Some("192.0.2.1"),
            user_agent: Some("browser"),
            expires_at,
        }
    }

    /// A signed-in browser.
    pub async fn session(&self, person: PersonId, from: Timestamp, until: Timestamp) -> SecretHash {
        let new = self.new_session(person, until);
        self.store.session_create(&new, None, from).await.unwrap();
        new.token
    }

    /// A mail that is not stored yet.
    pub fn new_mail(&self, address: &str) -> QueuedMail {
        let mail = OutgoingMail { to: email(address), subject: "News".into(), text: "Something happened.\n".into() };
        QueuedMail { id: self.rng.uuid_v7(now()).into(), mail }
    }

    /// A sign-in code that is not stored yet.
    pub fn new_ticket(&self, address: &str, at: Timestamp) -> Ticket {
        Ticket {
            token: self.secret(),
            email: email(address),
            sealed_code: self.rng.bytes(),
            next: Some("/device".parse().unwrap()),
            created_at: at,
            expires_at: at + TimeDelta::seconds(CODE_SECONDS),
            tries: 0,
            state: TicketState::Live,
        }
    }

    /// A registered computer, with its identity and its secret.
    pub async fn machine(&self) -> (MachineUuid, UserCuid, SecretHash) {
        let (machine_uuid, user_cuid, secret) = (self.rng.uuid_v7(now()).into(), self.cuid(), self.secret());
        let new =
            NewMachine { machine_uuid, user_cuid: &user_cuid, name: Some("laptop"), secret, part: LogPart::FIRST };
        assert_eq!(self.store.machine_register(&new, now()).await.unwrap(), Register::Registered);
        (machine_uuid, user_cuid, secret)
    }

    /// Another registered computer of this identity.
    pub async fn machine_of(&self, user_cuid: &UserCuid, at: Timestamp) -> MachineUuid {
        let machine_uuid = self.rng.uuid_v7(now()).into();
        let new = NewMachine { machine_uuid, user_cuid, name: None, secret: self.secret(), part: LogPart::FIRST };
        assert_eq!(self.store.machine_register(&new, at).await.unwrap(), Register::Registered);
        machine_uuid
    }

    /// A computer that is attached to an account.
    pub async fn attached(&self, account: &UserAccountId) -> (MachineUuid, UserCuid, SecretHash) {
        let machine = self.machine().await;
        assert_eq!(self.store.machine_attach(machine.0, account, now(), &self.rng).await.unwrap(), Ok(()));
        machine
    }

    /// An anonymous registration that is not stored yet.
    pub fn new_registration(&self) -> Registration {
        Registration {
            id: self.rng.uuid_v7(now()).into(),
            registration_type: RegistrationType::Anonymous,
            login_hint: None,
            claim_token: self.secret(),
            claim_token_expires: now() + TimeDelta::hours(24),
            created_at: now(),
            ip_address: Some("192.0.2.1".into()),
            last_token_at: None,
            label: None,
            claim: None,
            revoked_at: None,
        }
    }

    /// An anonymous registration.
    pub async fn registered(&self) -> Registration {
        let registration = self.new_registration();
        self.store.registration_create(&registration, None).await.unwrap();
        registration
    }

    pub async fn registration(&self) -> RegistrationId {
        let registration = self.new_registration();
        self.store.registration_create(&registration, None).await.unwrap();
        registration.id
    }

    pub fn new_attempt(&self, registration: RegistrationId, at: Timestamp) -> Attempt {
        Attempt {
            token: self.secret(),
            registration,
            sealed_code: self.rng.bytes(),
            email: None,
            expires_at: at + TimeDelta::seconds(ATTEMPT_SECONDS),
            wrong_tries: 0,
            state: AttemptState::Live,
        }
    }

    pub async fn claim_of(&self, address: &str) -> Claim {
        let person = self.person(address).await;
        Claim { account: person.account.unwrap(), person: person.id, email: person.email, rights: None, at: now() }
    }

    /// A registration that was claimed by the person with an e-mail address.
    pub async fn claimed(&self, address: &str) -> (RegistrationId, Claim) {
        let registration = self.registration().await;
        let attempt = self.new_attempt(registration, now());
        self.store.attempt_start(&attempt, 10, TimeDelta::hours(1), now()).await.unwrap();
        let claim = self.claim_of(address).await;
        assert!(self.store.attempt_complete(&attempt.token, &claim, ConfirmedVia::Session, None, now()).await.unwrap());
        (registration, claim)
    }
}

/// A time with milliseconds, as the clock returns it.
pub fn now() -> Timestamp {
    Timestamp::from_timestamp_millis(1_767_225_600_123).unwrap()
}

/// `now` moved by seconds.
pub fn at(seconds: i64) -> Timestamp {
    now() + TimeDelta::seconds(seconds)
}

pub fn email(text: &str) -> Email {
    text.parse().unwrap()
}

/// The settings of a store on a database.
pub fn settings_of(database: &TestDatabase) -> DatabaseSettings {
    DatabaseSettings { url: Some(database.url.clone()), ..DatabaseSettings::default() }
}
