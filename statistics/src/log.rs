//! The embedded statistics service: an append-only log of events with a Merkle tree (`docs/decisions/0023-embedded-log.md` and
//! `docs/decisions/0024-merkle-tree-and-proofs.md`).
//!
//! 1. [`Log::append`] takes a group of events in one transaction: an event that was taken before gets its receipt again, the rest must continue
//!    its chain. The receipt is given after the commit.
//! 2. [`Log::sequence`] gives events that are not in the tree yet their place, in the order of commits, and signs a checkpoint over the
//!    grown tree. It never signs a tree that does not begin with the one signed before.
//! 3. [`Log::audit`] reads all of it again, and says whether every event, every chain, the tree and its signature hold.
//! 4. Everything else reads: activity, proofs, checkpoint, consistency, keys, usage. All are index lookups, however long the log is.
//!
//! An SQLite file is written by one thread that owns its connection (`log/writer.rs`); on PostgreSQL (`log/postgres.rs`) the database
//! serialises the writes of several processes.

mod append;
mod audit;
mod epoch;
mod health;
mod postgres;
mod read;
mod recent;
mod sequence;
mod shelf;
mod sql;
mod usage;
mod writer;

use std::sync::Arc;

use dashmap::DashMap;
use domain::ids::MachineUuid;
use domain::{Clock, Rng};
use sqlx::migrate::Migrator;
use store::pool::{query, scalar};
use store::{Pool, StoreError, in_transaction};
use uuid::Uuid;

pub use append::{Append, AppendOutcome, AppendReply};
pub use audit::{AuditFault, Audited};
pub use epoch::{Continuity, LogHead};
pub use health::LogStatus;
pub use sequence::Sequenced;

use crate::checkpoint::{InvalidLogName, SignerKey, base_of};
use crate::merkle::{self, TreeFault};
use health::Appends;
use recent::UnindexedEvents;
use shelf::TreeCache;
use sql::Dialect;
use usage::UsageSums;
use writer::Writer;

static SQLITE: Migrator = sqlx::migrate!("../migrations/statistics/sqlite");
static POSTGRES: Migrator = sqlx::migrate!("../migrations/statistics/postgres");

/// Source of events: computer, agent, identity, lane. There are few, so events refer to them by number.
type Source = (MachineUuid, String, String, &'static str);

/// The embedded log. Clones share one log.
#[derive(Debug, Clone)]
pub struct Log {
    pool: Pool,
    clock: Clock,
    rng: Rng,
    /// PostgreSQL: the numbers of sources, which never change; at most [`SOURCES_MAX`].
    sources: Arc<DashMap<Source, i64>>,
    /// PostgreSQL: id of this process in the lease of the sequencer.
    holder: Uuid,
    /// SQLite: handle of the thread that writes.
    writer: Option<Writer>,
    /// SQLite: usage that the newest leaves add.
    spans: UsageSums,
    /// SQLite: events that are not in the indexes yet.
    recent: UnindexedEvents,
    /// Failure of the last append of this process, if it failed.
    appends: Arc<Appends>,
    /// Tiles and the signed tree, cached for proofs.
    shelf: Arc<TreeCache>,
}

/// Maximum number of sources in memory; beyond it all are dropped and read again.
const SOURCES_MAX: usize = 65_536;

/// Limits of the writer of an SQLite file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterSettings {
    /// Maximum number of events of one transaction.
    pub group_max: usize,
    /// Maximum number of chains whose heads are kept in memory; those with events outside the indexes are kept in any case.
    pub chains_max: usize,
    /// Size of the write-ahead log in bytes at which it is overwritten from its beginning; it is copied into the file in parts.
    pub wal_bytes: u64,
    /// Number of unindexed events at which the indexes are written even while the log is busy.
    pub index_every: usize,
    /// Maximum memory in bytes of the Bloom filters of the index of ids.
    pub id_filters_bytes: u64,
}

impl Default for WriterSettings {
    fn default() -> Self {
        Self {
            group_max: 256,
            chains_max: 100_000,
            wal_bytes: 64 * 1024 * 1024,
            index_every: 32_768,
            id_filters_bytes: 64 * 1024 * 1024,
        }
    }
}

/// Why an operation of the log failed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The database could not be opened or migrated.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A statement failed.
    #[error("{operation}: {source}")]
    Sql {
        /// The operation that failed.
        operation: &'static str,
        /// The error of the driver.
        source: sqlx::Error,
    },
    /// A statement on the writer's connection failed.
    #[error("{operation}: {source}")]
    Sqlite {
        /// The operation that failed.
        operation: &'static str,
        /// The error of the library.
        source: rusqlite::Error,
    },
    /// The writer's thread cannot be started.
    #[error("the thread of the log's writer cannot be started: {0}")]
    Thread(#[source] std::io::Error),
    /// The writer panicked over this group; none of its events was answered.
    #[error("the log's writer panicked: {0}")]
    Crashed(String),
    /// Too many events wait for the writer; none of these was written.
    #[error("too many events wait for the log's writer")]
    Full,
    /// Too many events are outside the indexes; none of these was written.
    #[error("the indexes of the log cannot be written, and too many events are outside them")]
    Unindexed,
    /// The row of an event is missing, so no later event can be placed.
    #[error("row {0} of the log is missing, so no later event gets a place")]
    Gap(i64),
    /// The log is closed.
    #[error("the log is closed")]
    Closed,
    /// The commit of the event's group failed; all events of the group share the error.
    #[error(transparent)]
    Group(Arc<Self>),
    /// Another process appended to the same chains concurrently; nothing was written.
    #[error("appending: another process moved the same chains")]
    Contended,
    /// `log.origin` is not the name of a log.
    #[error(transparent)]
    Name(#[from] InvalidLogName),
    /// The log has another origin.
    #[error("the log was begun as {begun}, and log.origin is fixed from then on; it says {asked} now")]
    OtherOrigin {
        /// Origin of the existing log.
        begun: String,
        /// The name in the configuration.
        asked: String,
    },
    /// The stored tree contradicts its events.
    #[error("the tree: {0}")]
    Tree(#[from] TreeFault),
    /// The stored tree does not begin with the signed one, so it is not signed.
    #[error(
        "the stored tree does not begin with the one that was signed: nothing is signed until an operator has looked"
    )]
    Inconsistent,
    /// A row has a value that no version of this program writes.
    #[error("a row of the log is corrupt: {0}")]
    Corrupt(&'static str),
}

impl LogError {
    /// Whether the database is unavailable, so that a retry of single items would fail too.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Store(error) => error.is_unavailable(),
            Self::Sql { source, .. } => !matches!(source, sqlx::Error::Database(error) if error.is_unique_violation()),
            Self::Contended => false,
            Self::Sqlite { source, .. } => !writer::is_of_one_row(source),
            Self::Group(error) => error.is_unavailable(),
            _ => true,
        }
    }

    /// Whether only the stored tree cannot grow. Appends are not affected.
    fn is_of_the_tree(&self) -> bool {
        matches!(self, Self::Inconsistent | Self::Tree(_) | Self::Gap(_))
    }

    /// Whether the error is a panic of the writer.
    pub fn is_crash(&self) -> bool {
        match self {
            Self::Crashed(_) => true,
            Self::Group(error) => error.is_crash(),
            _ => false,
        }
    }
}

/// Adds the name of the operation to an error of the driver.
trait During<T> {
    fn during(self, operation: &'static str) -> Result<T, LogError>;
}

impl<T> During<T> for Result<T, sqlx::Error> {
    fn during(self, operation: &'static str) -> Result<T, LogError> {
        self.map_err(|source| LogError::Sql { operation, source })
    }
}

/// Adds the name of the operation to an error of the writer's connection.
trait DuringSqlite<T> {
    fn during(self, operation: &'static str) -> Result<T, LogError>;
}

impl<T> DuringSqlite<T> for Result<T, rusqlite::Error> {
    fn during(self, operation: &'static str) -> Result<T, LogError> {
        self.map_err(|source| LogError::Sqlite { operation, source })
    }
}

impl Log {
    /// Opens the log in `pool`, with the default limits of its writer: see [`Self::open_with`].
    pub async fn open(pool: Pool, origin: &str, clock: &Clock, rng: &Rng) -> Result<Self, LogError> {
        Self::open_with(pool, origin, clock, rng, &WriterSettings::default()).await
    }

    /// Opens the log in `pool`: creates or upgrades its tables, and creates the key of a new log. `origin` is the name of the log from then
    /// on; a later epoch has another origin of the same base name.
    pub async fn open_with(
        pool: Pool,
        origin: &str,
        clock: &Clock,
        rng: &Rng,
        settings: &WriterSettings,
    ) -> Result<Self, LogError> {
        pool.migrate(&SQLITE, &POSTGRES).await?;
        let mut log = Self::over(pool, clock, rng);
        log.begin(origin).await?;
        if let Pool::Sqlite { file, .. } = &log.pool {
            let (spans, recent) = (log.spans.clone(), log.recent.clone());
            let writer = Writer::start(file.clone(), settings, (clock, rng), spans, recent, Arc::clone(&log.appends))?;
            log.writer = Some(writer);
        }
        Ok(log)
    }

    /// Opens the log in a pool that is only read, such as that of a backup. Nothing is created or upgraded.
    pub async fn open_copy(pool: Pool, clock: &Clock, rng: &Rng) -> Result<Self, LogError> {
        pool.check_schema(&SQLITE, &POSTGRES).await?;
        Ok(Self::over(pool, clock, rng))
    }

    /// Sets the maximum size of the cache of full tiles, in bytes. The default is 64 MiB.
    #[must_use]
    pub fn with_tiles_cache(mut self, bytes_max: u64) -> Self {
        self.shelf = Arc::new(TreeCache::new(bytes_max));
        self
    }

    fn over(pool: Pool, clock: &Clock, rng: &Rng) -> Self {
        let holder = rng.uuid_v7(clock.now());
        Self {
            pool,
            clock: clock.clone(),
            rng: rng.clone(),
            sources: Arc::default(),
            holder,
            writer: None,
            spans: UsageSums::default(),
            recent: UnindexedEvents::default(),
            appends: Arc::default(),
            shelf: Arc::default(),
        }
    }

    /// Makes the key and signs the empty tree, once; of several processes the first one does.
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

    /// The connection pool, for metrics.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Takes the queued events, gives the lease back, so that another process need not wait for its end, and closes the connections.
    pub async fn close(&self) {
        match (&self.writer, &self.pool) {
            (Some(writer), _) => writer.close().await,
            (None, Pool::Postgres(_)) => self.end_lease().await,
            (None, Pool::Sqlite { .. }) => {}
        }
        self.pool.close().await;
    }

    /// Reads the tiles with these ids.
    async fn tiles(
        &self,
        names: impl IntoIterator<Item = merkle::tile::TileId>,
    ) -> Result<merkle::tile::Tiles, LogError> {
        let mut rows = sql::Rows::default();
        for name in names {
            rows.push(&sql::TileRow { pos: rows.pos(), len: 0, level: name.level, place: name.index }, &[]);
        }
        let (json, _) = rows.parameters();
        let found: Vec<sql::FoundTile> =
            query(Dialect::of(&self.pool).tiles).bind(&json).fetch_all(&self.pool).await.during("read tiles")?;
        let mut tiles = merkle::tile::Tiles::default();
        for (level, place, hashes) in found {
            let corrupt = |_| LogError::Corrupt("tiles.level or tiles.place");
            let (level, index) = (u8::try_from(level).map_err(corrupt)?, u64::try_from(place).map_err(corrupt)?);
            tiles.insert(merkle::tile::TileId { level, index }, &hashes);
        }
        Ok(tiles)
    }
}
