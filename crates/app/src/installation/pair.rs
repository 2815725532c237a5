//! The two databases before their tables are changed.

use domain::{Clock, Rng};
use statistics::log::{Log, Witnessing};
use statistics::witness::WitnessAddress;
use store::memory::database::MemoryRefusal;
use store::{DatabaseSettings, Pool, Replica, Store};

use super::error::OpenError;
use super::places::SCHEMA;
use crate::config::Settings;

/// SQLite: size of a page of a new log file, in bytes. Events are appended, so larger pages reduce work.
const LOG_PAGE_BYTES: u32 = 16_384;

/// The configuration and resources with which both databases are opened.
pub struct StartContext<'g> {
    /// The configuration.
    pub settings: &'g Settings,
    /// The current time.
    pub clock: &'g Clock,
    /// The source of ids.
    pub rng: &'g Rng,
}

/// The two databases before their tables are changed.
pub struct Found {
    /// The main database.
    pub store: Store,
    /// Whether the main database has no tables.
    pub is_main_database_empty: bool,
    /// The log, unless its file is missing or it has no tables.
    pub log: Option<Pool>,
}

impl StartContext<'_> {
    /// Opens the databases that exist. On SQLite it creates no file for the log.
    #[boxed]
    pub async fn look(&self) -> Result<Found, OpenError> {
        let store = Store::open(&self.settings.database, &self.settings.data.main_database()).await?;
        let store = store.with_notices(self.settings.notices());
        refuse_memory(&store).await?;
        let log = log_pool_if_there(self.settings, &store).await?;
        let is_main_database_empty = store.pool().is_empty().await?;
        Ok(Found { store, is_main_database_empty, log })
    }

    /// Opens the log in a pool. A new log gets this origin.
    #[boxed]
    pub(super) async fn log(&self, pool: Pool, origin: &str) -> Result<Log, OpenError> {
        let log = Log::open_with(pool, origin, self.clock, self.rng, &self.settings.log.writer()).await?;
        let keys = self.settings.log.witnesses().unwrap_or_default().iter().map(WitnessAddress::key).collect();
        let log = log.with_witnesses(Witnessing::new(keys, self.settings.log.witness_quorum));
        Ok(log.with_tiles_cache(self.settings.log.tiles_cache_bytes).with_archive(self.settings.log.archive()))
    }

    /// The log in the main database's server, which may have a replica.
    #[boxed]
    pub async fn first_log(&self, pool: Pool, origin: &str) -> Result<Log, OpenError> {
        let replica = Replica::of(&self.settings.database, Some(SCHEMA));
        Ok(self.log(pool, origin).await?.with_replica(replica))
    }
}

/// Refuses a main database that is the database of a memory.
pub(super) async fn refuse_memory(store: &Store) -> Result<(), OpenError> {
    if store.is_memory_only().await? {
        return Err(OpenError::Memory(MemoryRefusal::NotMain));
    }
    Ok(())
}

/// Whether the data folder contains the file of the log but not the file of the main database.
pub fn is_lone_log(settings: &Settings) -> bool {
    settings.database.url.is_none() && settings.data.log().exists() && !settings.data.main_database().exists()
}

/// The log, unless its file is missing or it has no tables.
pub(super) async fn log_pool_if_there(settings: &Settings, store: &Store) -> Result<Option<Pool>, OpenError> {
    if settings.database.url.is_none() && !settings.data.log().exists() {
        return Ok(None);
    }
    let pool = log_pool(settings, store).await?;
    if pool.is_empty().await? {
        pool.close().await;
        return Ok(None);
    }
    Ok(Some(pool))
}

/// The database of the log: on PostgreSQL the connections of the main database, on SQLite a file, which is created if it does not
/// exist.
pub(super) async fn log_pool(settings: &Settings, store: &Store) -> Result<Pool, OpenError> {
    if let Some(pool) = store.pool().in_schema(SCHEMA) {
        return Ok(pool);
    }
    let database =
        DatabaseSettings { page_bytes: LOG_PAGE_BYTES, overwrites_deleted: false, ..settings.database.clone() };
    Ok(Pool::open(&database, &settings.data.log(), None).await?)
}
