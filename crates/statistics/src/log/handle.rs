//! The handle of the log: opening, closing, and the state that all operations share.

use std::sync::Arc;

use dashmap::DashMap;
use domain::chain::ChainKey;
use domain::ids::MachineUuid;
use domain::registry::Registry;
use domain::{Clock, Rng};
use quick_cache::sync::Cache;
use sqlx::migrate::Migrator;
use store::pool::{query, scalar};
use store::{DatabaseSettings, Pool, Replica, SchemaPlan, StoreError, in_transaction};
use uuid::Uuid;

use super::cosign::Witnessing;
use super::ended::EndedDays;
use super::error::{During, LogError};
use super::halt::HaltFlag;
use super::health::appends::Appends;
use super::lease::SequencerLease;
use super::memory::NodeMemory;
use super::postgres::StoredHead;
use super::recent::UnindexedEvents;
use super::replica::LogReplica;
use super::settings::WriterSettings;
use super::sql::{self, Dialect};
use super::tree_cache::cache::TreeCache;
use super::usage::sums::UsageSums;
use super::writer::Writer;
use crate::archive::Archive;
use domain::checkpoint::{SignerKey, base_of};
use proofs::merkle;

static SQLITE: Migrator = sqlx_macros::migrate!("../../migrations/statistics/sqlite");
static POSTGRES: Migrator = sqlx_macros::migrate!("../../migrations/statistics/postgres");

/// Source of events: computer, agent, identity, lane. There are few, so events refer to them by number.
pub(super) type Source = (MachineUuid, String, String, &'static str);

/// The embedded log. Clones share one log.
#[derive(Debug, Clone)]
pub struct Log {
    pub(super) pool: Pool,
    pub(super) clock: Clock,
    pub(super) rng: Rng,
    /// PostgreSQL: the numbers of sources, which never change; at most [`SOURCES_MAX`].
    pub(super) sources: Arc<Cache<Source, i64>>,
    /// PostgreSQL: heads of chains, any of which may be outdated; at most [`HEADS_MAX`].
    pub(super) heads: Arc<Cache<ChainKey, StoredHead>>,
    /// PostgreSQL: chains with events that wait for another process.
    pub(super) contended: Arc<DashMap<ChainKey, ()>>,
    /// PostgreSQL: id of this process in the lease of the sequencer.
    pub(super) holder: Uuid,
    /// PostgreSQL: the lease of the sequencer, while this process has it.
    pub(super) lease: Arc<SequencerLease>,
    /// SQLite: handle of the thread that writes.
    pub(super) writer: Option<Writer>,
    /// SQLite: sums of the usage of the newest leaves.
    pub(super) spans: UsageSums,
    /// SQLite: events that are not in the indexes yet.
    pub(super) recent: UnindexedEvents,
    /// Failure of the last append of this process, if it failed.
    pub(super) appends: Arc<Appends>,
    /// Numbers of events on days that have ended.
    pub(super) ended: Arc<EndedDays>,
    /// Tiles and the signed tree, cached for proofs.
    pub(super) tree_cache: Arc<TreeCache>,
    /// PostgreSQL: a replica that answers activity and proofs.
    pub(super) replica: Option<LogReplica>,
    /// PostgreSQL: the newest checkpoint that this process signed or saw.
    pub(super) memory: Arc<NodeMemory>,
    /// The witnesses that cosign checkpoints, and their quorum.
    pub(super) witnessing: Arc<Witnessing>,
    /// Why the log is not signed, if it is not.
    pub(super) halt: Arc<HaltFlag>,
    /// Has the bodies of old events; without it, all are in the database.
    pub(super) archive: Option<Archive>,
    /// Makes the sentences of activity; without it, pages have none.
    pub(super) registry: Option<Arc<Registry>>,
}

/// Maximum number of sources in memory; the least recently used are evicted.
const SOURCES_MAX: usize = 65_536;

/// Maximum number of heads in memory, about 200 bytes each; the least recently used are evicted.
const HEADS_MAX: usize = 65_536;

impl Log {
    /// Opens the log in `pool`, with the default limits of its writer: see [`Self::open_with`].
    #[boxed]
    pub async fn open(pool: Pool, origin: &str, clock: &Clock, rng: &Rng) -> Result<Self, LogError> {
        Self::open_with(pool, origin, clock, rng, &WriterSettings::default()).await
    }

    /// Opens the log in `pool`: creates or upgrades its tables, and creates the key of a new log. `origin` becomes the name of a new log; a
    /// later epoch has another origin with the same base name.
    #[boxed]
    pub async fn open_with(
        pool: Pool,
        origin: &str,
        clock: &Clock,
        rng: &Rng,
        settings: &WriterSettings,
    ) -> Result<Self, LogError> {
        pool.migrate(&SQLITE, &POSTGRES).await?;
        let mut log = Self::over(pool, clock, rng);
        log.check_sequence().await?;
        if let Some(version) = log.distributed_by_citus().await? {
            tracing::warn!(
                citus = version,
                "Citus has distributed the log: an event costs several times the CPU of PostgreSQL alone"
            );
        }
        log.begin(origin).await?;
        match log.follow_stored_halt().await {
            // A halted log can be read, and the operator starts its next epoch.
            Ok(()) | Err(LogError::Halted(_)) => {}
            Err(error) => return Err(error),
        }
        if let Pool::Sqlite { file, .. } = &log.pool {
            let (spans, recent) = (log.spans.clone(), log.recent.clone());
            let writer = Writer::start(file.clone(), settings, (clock, rng), spans, recent, Arc::clone(&log.appends))?;
            log.writer = Some(writer);
        }
        Ok(log)
    }

    /// Opens the log in a pool that is only read, such as a backup. Does not create or upgrade tables.
    #[boxed]
    pub async fn open_copy(pool: Pool, clock: &Clock, rng: &Rng) -> Result<Self, LogError> {
        Self::check_schema(&pool).await?;
        Ok(Self::over(pool, clock, rng))
    }

    /// Refuses tables of the log in `pool` that are older than this program, or newer and not compatible with it.
    #[boxed]
    pub async fn check_schema(pool: &Pool) -> Result<(), StoreError> {
        pool.check_schema(&SQLITE, &POSTGRES).await
    }

    /// What opening the log in `pool` would do to its tables.
    #[boxed]
    pub async fn schema_plan(pool: &Pool) -> Result<SchemaPlan, LogError> {
        Ok(pool.schema_plan(&SQLITE, &POSTGRES).await?)
    }

    /// Refuses a sequence with a cache (`CACHE`): sessions would take several numbers at once, and numbers would not grow with the chains.
    /// The order of the tree does not depend on it (`log/postgres/order.rs`), but the time to find that order does.
    #[boxed]
    pub async fn check_sequence(&self) -> Result<(), LogError> {
        let Pool::Postgres(pool) = &self.pool else { return Ok(()) };
        let row: Option<(String, i64)> =
            query(sql::postgres::SEQUENCE).fetch_optional(pool).await.during("read the sequence of events")?;
        match row {
            Some((sequence, cache)) if cache > 1 => Err(LogError::CachedSequence { sequence, cache }),
            _ => Ok(()),
        }
    }

    /// The version of Citus, if it has distributed this log.
    #[boxed]
    pub async fn distributed_by_citus(&self) -> Result<Option<String>, LogError> {
        const ASKING: &str = "ask whether Citus has distributed the log";
        let Pool::Postgres(pool) = &self.pool else { return Ok(None) };
        let version: Option<String> = scalar(sql::postgres::CITUS).fetch_optional(pool).await.during(ASKING)?;
        let Some(version) = version else { return Ok(None) };
        let is_distributed: bool = scalar(sql::postgres::IS_DISTRIBUTED).fetch_one(pool).await.during(ASKING)?;
        Ok(is_distributed.then_some(version))
    }

    /// Adds to each event of a page of activity the sentence that the registry makes of it.
    #[must_use]
    pub fn with_registry(mut self, registry: Arc<Registry>) -> Self {
        self.registry = Some(registry);
        self
    }

    /// Sets the maximum size of the cache of full tiles, in bytes. The default is 64 MiB.
    #[must_use]
    pub fn with_tiles_cache(mut self, bytes_max: u64) -> Self {
        self.tree_cache = Arc::new(TreeCache::new(bytes_max));
        self
    }

    /// Sets the replica that answers activity and proofs.
    #[must_use]
    pub fn with_replica(mut self, replica: Option<Replica>) -> Self {
        self.replica = replica.map(|replica| LogReplica { replica, tree_cache: Arc::default() });
        self
    }

    /// Sets the witnesses that cosign checkpoints, and how many are required. The default is no witness.
    #[must_use]
    pub fn with_witnesses(mut self, witnessing: Witnessing) -> Self {
        self.witnessing = Arc::new(witnessing);
        self
    }

    fn over(pool: Pool, clock: &Clock, rng: &Rng) -> Self {
        let holder = rng.uuid_v7(clock.now());
        Self {
            pool,
            clock: clock.clone(),
            rng: rng.clone(),
            sources: Arc::new(Cache::new(SOURCES_MAX)),
            heads: Arc::new(Cache::new(HEADS_MAX)),
            contended: Arc::default(),
            holder,
            lease: Arc::default(),
            writer: None,
            spans: UsageSums::default(),
            recent: UnindexedEvents::default(),
            appends: Arc::default(),
            ended: Arc::default(),
            tree_cache: Arc::default(),
            replica: None,
            memory: Arc::default(),
            witnessing: Arc::default(),
            halt: Arc::default(),
            archive: None,
            registry: None,
        }
    }

    /// Creates the key and signs the empty tree, once; if several processes start, the first one does.
    async fn begin(&self, origin: &str) -> Result<(), LogError> {
        let signer = SignerKey::draw(origin, &self.rng)?;
        let (now, vkey) = (self.clock.now(), signer.verifier().to_string());
        let root = merkle::empty_root();
        let checkpoint = signer.sign(0, root);
        let begun: String = in_transaction!(&self.pool, |tx| {
            let added = query(sql::KEY_ADD)
                .bind(&vkey)
                .bind(origin)
                .bind(&signer.seed()[..])
                .bind(now)
                .execute(&mut *tx)
                .await?;
            if added == 1 {
                let tree = query(sql::TREE_BEGIN).bind(&root.as_bytes()[..]).bind(&checkpoint).bind(&vkey).bind(now);
                tree.execute(&mut *tx).await?;
            }
            scalar(sql::KEY_ACTIVE).fetch_one(&mut *tx).await
        })
        .await
        .during("begin the log")?;
        // The base name is the same in every epoch.
        if base_of(&begun) == base_of(origin) {
            Ok(())
        } else {
            Err(LogError::OtherOrigin { begun, asked: origin.to_owned() })
        }
    }

    /// Whether this process signs the log: on PostgreSQL while it has the lease of the sequencer, on SQLite always.
    pub fn is_sequencer(&self) -> bool {
        self.writer.is_some() || self.lease.is_held()
    }

    /// The connection pool, for metrics.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Releases the lease of the sequencer, so that another process need not wait until it expires.
    #[boxed]
    pub async fn give_lease_back(&self) {
        if let Pool::Postgres(_) = &self.pool {
            self.end_lease().await;
        }
    }

    /// Puts the timeouts of other settings of the database in force.
    pub fn retune(&self, settings: &DatabaseSettings) {
        self.pool.retune(settings);
        if let Some(LogReplica { replica, .. }) = &self.replica {
            replica.retune(settings);
        }
    }

    /// Commits the queued events, releases the lease and closes the connections.
    #[boxed]
    pub async fn close(&self) {
        if let Some(writer) = &self.writer {
            writer.close().await;
        }
        self.give_lease_back().await;
        if let Some(LogReplica { replica, .. }) = &self.replica {
            replica.close().await;
        }
        self.pool.close().await;
    }

    pub(super) async fn tiles(
        &self,
        names: impl IntoIterator<Item = merkle::tile::TileId>,
    ) -> Result<merkle::tile::Tiles, LogError> {
        let names: Vec<sql::TileName> =
            names.into_iter().map(|name| sql::TileName { level: name.level, place: name.index }).collect();
        let json = serde_json::to_string(&names).map_err(|_| LogError::Corrupt("names of tiles"))?;
        let rows: Vec<sql::FoundTile> =
            query(Dialect::of(&self.pool).tiles).bind(&json).fetch_all(&self.pool).await.during("read tiles")?;
        let mut tiles = merkle::tile::Tiles::default();
        for (level, place, hashes) in rows {
            let corrupt = |_| LogError::Corrupt("tiles.level or tiles.place");
            let (level, index) = (u8::try_from(level).map_err(corrupt)?, u64::try_from(place).map_err(corrupt)?);
            tiles.insert(merkle::tile::TileId { level, index }, &hashes);
        }
        Ok(tiles)
    }
}
