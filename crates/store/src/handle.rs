//! The handle of the store: opening, migrating and closing it.

use std::path::Path;
use std::sync::Arc;

use domain::ids::NodeId;
use domain::live::Live;
use futures_util::future::join_all;
use sqlx::migrate::Migrator;

use crate::act::PendingAct;
use crate::error::StoreError;
use crate::memory::slot::MemoryDatabase;
use crate::notice::NoticeLimits;
use crate::operation::{During, Operation};
use crate::pool::{DatabaseSettings, Pool, SchemaPlan, probe, query};
use crate::replica::Replica;
use crate::{in_transaction, probes};

static SQLITE: Migrator = sqlx_macros::migrate!("../../migrations/sqlite");
static POSTGRES: Migrator = sqlx_macros::migrate!("../../migrations/postgres");

/// The main database. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) pool: Pool,
    /// Whether changes are announced to other processes (`database.notify`).
    pub(crate) notifies: bool,
    /// Limits of the written notifications.
    pub(crate) notices: Live<NoticeLimits>,
    /// The node that holds the leases of this store.
    pub(crate) holder: Option<NodeId>,
    /// The replica that answers searches, if one is configured.
    pub(crate) replica: Option<Replica>,
    /// The database of the memory, if it is not this one.
    pub(crate) memory: Option<MemoryDatabase>,
    /// Whether the pool is a replica's.
    pub(crate) is_replica: bool,
    /// The act of an operator that the next effect belongs to.
    pub(crate) act: Option<Arc<PendingAct>>,
}

impl Store {
    /// Connects; see [`Pool::open`]. Requires an earlier [`Store::migrate`].
    #[boxed]
    pub async fn open(settings: &DatabaseSettings, sqlite_path: &Path) -> Result<Self, StoreError> {
        let pool = Pool::open(settings, sqlite_path, None).await?;
        Ok(Self { notifies: settings.notify, replica: Replica::of(settings, None), ..Self::of(pool) })
    }

    /// A store of these connections, without notifications and replica.
    pub(crate) fn of(pool: Pool) -> Self {
        let notices = NoticeLimits::default().into();
        Self { pool, notifies: false, notices, holder: None, replica: None, memory: None, is_replica: false, act: None }
    }

    /// Opens a copy of the main database in a file, such as a backup, read-only.
    #[boxed]
    pub async fn open_copy(sqlite_path: &Path) -> Result<Self, StoreError> {
        let pool = Pool::open_copy(sqlite_path).await?;
        let store = Self::of(pool);
        store.check_schema().await?;
        Ok(store)
    }

    /// Puts the timeouts of other settings in force; see [`Pool::retune`].
    pub fn retune(&self, settings: &DatabaseSettings) {
        for (pool, replica) in self.databases() {
            pool.retune(settings);
            if let Some(replica) = replica {
                replica.retune(settings);
            }
        }
    }

    /// The connections to the main database and to a separate one of the memory, each with those to its replica.
    fn databases(&self) -> impl Iterator<Item = (&Pool, Option<&Replica>)> {
        let memory = self.memory.as_ref().and_then(MemoryDatabase::get);
        let memory = memory.map(|open| (&open.pool, open.replica.as_ref()));
        [(&self.pool, self.replica.as_ref())].into_iter().chain(memory)
    }

    /// Creates or upgrades the tables. Fails if a newer program created them.
    #[boxed]
    pub async fn migrate(&self) -> Result<(), StoreError> {
        self.pool.migrate(&SQLITE, &POSTGRES).await
    }

    /// The newest migration that this program knows.
    pub fn schema_version(&self) -> i64 {
        self.pool.known_schema(&SQLITE, &POSTGRES)
    }

    /// Fails if the tables are newer or older than this program.
    #[boxed]
    pub async fn check_schema(&self) -> Result<(), StoreError> {
        self.pool.check_schema(&SQLITE, &POSTGRES).await
    }

    /// What [`Self::migrate`] would do.
    #[boxed]
    pub async fn schema_plan(&self) -> Result<SchemaPlan, StoreError> {
        self.pool.schema_plan(&SQLITE, &POSTGRES).await
    }

    /// Commits a write in a separate transaction, to test whether the database accepts writes.
    #[boxed]
    pub async fn writable(&self) -> Result<(), StoreError> {
        const SQL: &str = "UPDATE heartbeat SET beats = beats + 1 WHERE id = 1";
        if self.pool.is_postgres() {
            // A single statement is a transaction, in one round trip.
            return query(SQL).execute(self.pool.writer()).during(Operation::WriteHeartbeat).await.map(drop);
        }
        in_transaction!(&self.pool, |tx| query(SQL).execute(&mut *tx).await.map(drop))
            .during(Operation::WriteHeartbeat)
            .await
    }

    /// Executes the read of a request's credential, to test whether the database answers short reads.
    #[boxed]
    pub async fn readable(&self) -> Result<(), StoreError> {
        // No secret has this hash.
        let no_hash = [].as_slice();
        probe(probes::MACHINE_BY_SECRET).bind(no_hash).check(&self.pool).during(Operation::LookCredentialUp).await
    }

    /// The connections, for metrics.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Waits until the connections are returned and closes them.
    #[boxed]
    pub async fn close(&self) {
        let closings = self.databases().map(|(pool, replica)| async move {
            if let Some(replica) = replica {
                replica.close().await;
            }
            pool.close().await;
        });
        join_all(closings).await;
    }
}
