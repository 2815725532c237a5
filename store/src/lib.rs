//! Only SQL: the facts of attache on disk, one text for SQLite and PostgreSQL.
//!
//! The store is the truth: an actor's memory is a cache of it. Every transition is a guarded write (`UPDATE … WHERE state =
//! 'live' …`, then a look at the rows affected), so that a second actor, process or node can never do it twice, and every
//! statement names the owner for whom it acts.
//!
//! | noun | facts |
//! |---|---|
//! | [`account`] | accounts, people, identities |
//! | [`balance`] | the ledger of purchased balances |
//! | [`machine`] | computers, their secrets, whom they are attached to |
//! | [`device`] | codes by which computers are attached |
//! | [`consent`] | levels that people set |
//! | [`signin`] | codes that were mailed to sign people in |
//! | [`outbox`] | reports of changed consent that wait to be forwarded |
//! | [`session`] | signed-in browsers |
//! | [`mail`] | letters that wait to be sent |
//! | [`claim`] | registrations of agents and attempts to claim them |
//! | [`token`] | access tokens, keys of identity assertions |
//! | [`api_key`] | keys of the knowledge API |
//! | [`space`] | spaces, and who may do what there |
//! | [`filter`] | filter settings of accounts, and rejected content |
//! | [`batch`] | batches on their way into the knowledge API |
//! | [`memory`] | pages and notes of the knowledge API |
//! | [`passage`] | their chunks, and what finds them |
//! | [`key`] | the server's own keys |
//! | [`held`] | events that could not be forwarded |
//! | [`usage`] | usage by computer and day |
//! | [`janitor`] | retention |
//! | [`installation`] | the id of the installation, and the remembered checkpoint of its log |
//! | [`inventory`] | how much there is of everything |
//! | [`pool`] | one way to either database |

use crate::pool::query;
use std::path::Path;

use sqlx::migrate::Migrator;

pub mod account;
pub mod api_key;
pub mod balance;
pub mod batch;
pub mod budget;
pub mod claim;
pub mod consent;
pub mod device;
pub mod error;
pub mod filter;
pub mod held;
pub mod installation;
pub mod inventory;
pub mod janitor;
pub mod key;
pub mod machine;
pub mod mail;
pub mod memory;
pub mod operation;
pub mod outbox;
pub mod passage;
pub mod pool;
pub mod recorder;
pub mod session;
pub mod signin;
pub mod space;
pub mod token;
pub mod usage;

mod probes;
mod row;

pub use error::{Context, Corrupt, StoreError};
pub use operation::{During, Operation};
pub use pool::{DatabaseSettings, Pool};

static SQLITE: Migrator = sqlx::migrate!("../migrations/sqlite");
static POSTGRES: Migrator = sqlx::migrate!("../migrations/postgres");

/// The facts. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    pool: Pool,
}

impl Store {
    /// Connects; see [`Pool::open`]. The tables are those of the last [`Store::migrate`].
    pub async fn open(settings: &DatabaseSettings, sqlite_path: &Path) -> Result<Self, StoreError> {
        Ok(Self { pool: Pool::open(settings, sqlite_path, None).await? })
    }

    /// A copy of the facts in a file, such as a backup, for reading alone.
    pub async fn open_copy(sqlite_path: &Path) -> Result<Self, StoreError> {
        let store = Self { pool: Pool::open_copy(sqlite_path).await? };
        store.check_schema().await?;
        Ok(store)
    }

    /// Makes the tables, or brings them up to date. Refuses those of a newer program.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        self.pool.migrate(&SQLITE, &POSTGRES).await
    }

    /// Refuses tables that are newer or older than this program.
    pub async fn check_schema(&self) -> Result<(), StoreError> {
        self.pool.check_schema(&SQLITE, &POSTGRES).await
    }

    /// Writes a row in a transaction of its own and commits it, to learn whether the database takes writes.
    pub async fn writable(&self) -> Result<(), StoreError> {
        const SQL: &str = "UPDATE heartbeat SET beats = beats + 1 WHERE id = 1";
        in_transaction!(&self.pool, |tx| query(SQL).execute(&mut *tx).await.map(drop))
            .during(Operation::WriteHeartbeat)
            .await
    }

    /// Reads as requests do that present a credential, to test whether the database answers short reads.
    pub async fn readable(&self) -> Result<(), StoreError> {
        // No secret has this hash.
        self.pool
            .try_probe(probes::MACHINE_BY_SECRET, &[[].as_slice().into()])
            .during(Operation::LookCredentialUp)
            .await
    }

    /// The connections, for metrics.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Waits for the connections to come back and closes them.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}
