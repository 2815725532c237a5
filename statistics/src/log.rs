//! The embedded statistics service: an append-only log of events with a Merkle tree over it (decisions, section 9).
//!
//! 1. [`Log::append`] takes a group of events in one transaction: what was taken before has its receipt again, the rest must continue
//!    its chain. The receipt is given after the commit.
//! 2. [`Log::sequence`] gives events that are not in the tree yet their place, in the order of commits, and signs a checkpoint over the
//!    grown tree. It is the only writer of the tree, under a lease with a fence, and never signs a tree that does not begin with the one
//!    signed before.
//! 3. [`Log::audit`] reads all of it again, and says whether every event, every chain, the tree and its signature hold.
//! 4. Everything else reads: activity, proofs, checkpoint, consistency, keys, usage. All are index lookups, however long the log is.
//!
//! Nothing lives here: whoever owns the log calls `append` and `sequence`.

mod append;
mod audit;
mod read;
mod sequence;
mod shelf;
mod sql;
mod usage;

use std::sync::Arc;

use dashmap::DashMap;
use domain::ids::MachineUuid;
use domain::{Chance, Clock};
use sqlx::migrate::Migrator;
use store::{Pool, StoreError, in_transaction, on_reader, on_writer};
use uuid::Uuid;

pub use append::{Append, AppendOutcome};
pub use audit::{AuditFault, Audited};
pub use sequence::Sequenced;

use crate::checkpoint::{NotAName, SignerKey};
use crate::merkle::{self, TreeFault};
use shelf::Shelf;
use sql::Dialect;

static SQLITE: Migrator = sqlx::migrate!("../migrations/statistics/sqlite");
static POSTGRES: Migrator = sqlx::migrate!("../migrations/statistics/postgres");

/// Where an event comes from: machine, agent, identity, lane. Few, so that events name them by a number.
type Source = (MachineUuid, String, String, &'static str);

/// The log. Clones are the same log.
#[derive(Debug, Clone)]
pub struct Log {
    pool: Pool,
    clock: Clock,
    chance: Chance,
    /// Sources never change, so their numbers are known by heart.
    sources: Arc<DashMap<Source, i64>>,
    /// Who this process is in the lease of the sequencer.
    holder: Uuid,
    /// Tiles and the signed tree, cached for proofs.
    shelf: Arc<Shelf>,
}

/// Why the log cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A statement.
    #[error("{operation}: {source}")]
    Sql {
        /// What was attempted.
        operation: &'static str,
        /// What the driver said.
        source: sqlx::Error,
    },
    /// Another process moved the same chains at the same moment; nothing was written.
    #[error("appending: another process moved the same chains")]
    Contended,
    /// The name cannot name a log.
    #[error(transparent)]
    Name(#[from] NotAName),
    /// The log was begun under another name.
    #[error("the log was begun as {begun}, and log.origin is fixed from then on; it says {asked} now")]
    OtherOrigin {
        /// Its name.
        begun: String,
        /// What the configuration says.
        asked: String,
    },
    /// The tree is not what it must be.
    #[error("the tree: {0}")]
    Tree(#[from] TreeFault),
    /// The tree that was about to be signed does not begin with the one that was signed before.
    #[error(
        "the stored tree does not begin with the one that was signed: nothing is signed until an operator has looked"
    )]
    Inconsistent,
    /// A row that no version of this program wrote.
    #[error("a row of the log is corrupt: {0}")]
    Corrupt(&'static str),
}

impl LogError {
    /// Whether the database itself is out of reach, so that trying each item alone would not help.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Store(error) => error.is_unavailable(),
            Self::Sql { source, .. } => !matches!(source, sqlx::Error::Database(error) if error.is_unique_violation()),
            Self::Contended => false,
            _ => true,
        }
    }
}

/// Names the operation of a driver's error.
trait During<T> {
    fn during(self, operation: &'static str) -> Result<T, LogError>;
}

impl<T> During<T> for Result<T, sqlx::Error> {
    fn during(self, operation: &'static str) -> Result<T, LogError> {
        self.map_err(|source| LogError::Sql { operation, source })
    }
}

impl Log {
    /// Opens the log in `pool`: makes or upgrades its tables, and its key when it begins. `origin` names it for ever.
    pub async fn open(pool: Pool, origin: &str, clock: &Clock, chance: &Chance) -> Result<Self, LogError> {
        pool.migrate(&SQLITE, &POSTGRES).await?;
        let log = Self::over(pool, clock, chance);
        log.begin(origin).await?;
        Ok(log)
    }

    /// The log in a pool that is only read, such as that of a backup. Nothing is made and nothing is upgraded.
    pub async fn open_copy(pool: Pool, clock: &Clock, chance: &Chance) -> Result<Self, LogError> {
        pool.check_schema(&SQLITE, &POSTGRES).await?;
        Ok(Self::over(pool, clock, chance))
    }

    /// Sets the maximum size of the cache of full tiles, in bytes. The default is 64 MiB.
    #[must_use]
    pub fn with_tiles_cache(mut self, bytes_max: u64) -> Self {
        self.shelf = Arc::new(Shelf::new(bytes_max));
        self
    }

    fn over(pool: Pool, clock: &Clock, chance: &Chance) -> Self {
        let holder = chance.uuid_v7(clock.now());
        Self {
            pool,
            clock: clock.clone(),
            chance: chance.clone(),
            sources: Arc::new(DashMap::new()),
            holder,
            shelf: Arc::default(),
        }
    }

    /// Makes the key and signs the empty tree, once, whoever comes first.
    async fn begin(&self, origin: &str) -> Result<(), LogError> {
        let signer = SignerKey::draw(origin, &self.chance)?;
        let (now, vkey) = (self.clock.now(), signer.verifier().to_string());
        let root = merkle::empty_root();
        let checkpoint = signer.sign(0, root);
        let begun: String = in_transaction!(&self.pool, |tx| {
            let added = sqlx::query(sql::KEY_ADD)
                .bind(&vkey)
                .bind(origin)
                .bind(&signer.seed()[..])
                .bind(now)
                .execute(&mut *tx)
                .await?;
            if added.rows_affected() == 1 {
                let tree =
                    sqlx::query(sql::TREE_BEGIN).bind(&root.as_bytes()[..]).bind(&checkpoint).bind(&vkey).bind(now);
                tree.execute(&mut *tx).await?;
            }
            sqlx::query_scalar(sql::KEY_ACTIVE).fetch_one(&mut *tx).await
        })
        .during("begin the log")?;
        if begun == origin { Ok(()) } else { Err(LogError::OtherOrigin { begun, asked: origin.to_owned() }) }
    }

    /// Gives the lease back, so that another process need not wait for its end, and closes the connections.
    pub async fn close(&self) {
        let released = on_writer!(&self.pool, |db| {
            let released = sqlx::query(sql::LEASE_END).bind(self.holder);
            async { released.execute(db).await.map(drop) }
        });
        if let Err(error) = released {
            tracing::debug!(error = %error, "the lease of the sequencer could not be given back; it ends by itself");
        }
        self.pool.close().await;
    }

    /// The tiles with these names.
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
            on_reader!(&self.pool, |db: Db| sqlx::query_as(<Db as Dialect>::TILES).bind(&json).fetch_all(db))
                .during("read tiles")?;
        let mut tiles = merkle::tile::Tiles::default();
        for (level, place, hashes) in found {
            let corrupt = |_| LogError::Corrupt("tiles.level or tiles.place");
            let (level, index) = (u8::try_from(level).map_err(corrupt)?, u64::try_from(place).map_err(corrupt)?);
            tiles.insert(merkle::tile::TileId { level, index }, &hashes);
        }
        Ok(tiles)
    }
}
