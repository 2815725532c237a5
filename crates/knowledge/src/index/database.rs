//! Vector comparison in PostgreSQL with pgvector.
//!
//! The process then needs no memory for vectors. The database takes over once all earlier vectors are copied
//! ([`super::Index::keep_up`]); until then the process compares in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::ids::SpaceId;
use domain::memory::ModelId;
use store::chunk::near::DIMENSIONS_MAX;
use store::chunk::near::prepare::NearVectorsState;
use store::chunk::{AccountStatistics, ChunkId, ChunkLimits};
use store::{Pool, Store, StoreError};

use super::settings::Settings;

pub use super::settings::Pgvector;

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The store failed.
    #[error("cannot set up vector search")]
    Store(#[from] StoreError),
    /// pgvector is required but not available.
    #[error("knowledge.search.index.pgvector is \"required\", and {0}")]
    Absent(String),
}

/// Vectors per copied page. Their accounts are locked against changes during the copy.
const COPIED_AT_ONCE: usize = 2_000;

/// Remaining work after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upkeep {
    /// No upkeep is needed.
    Done,
    /// More vectors have to be copied.
    Copying,
    /// This large account has no index yet ([`super::Index::make_graph`]).
    GraphMissing(i64),
}

#[derive(Debug)]
pub(super) struct Database {
    store: Store,
    settings: Arc<Settings>,
    /// It has a copy of the vectors, which may be incomplete.
    copies: AtomicBool,
    /// The copy is complete.
    whole: AtomicBool,
}

impl Database {
    /// A database that does not compare vectors until [`Self::prepare`].
    pub(super) fn new(store: Store, settings: Arc<Settings>) -> Self {
        Self { store, settings, copies: AtomicBool::new(false), whole: AtomicBool::new(false) }
    }

    /// Whether the copy is complete, so that the database compares.
    pub(super) fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Acquire)
    }

    /// Whether it compares the vectors of a model. pgvector cannot index longer ones.
    pub(super) fn compares(&self, model: &ModelId) -> bool {
        self.is_whole() && model.dimensions <= DIMENSIONS_MAX
    }

    /// Prepares the comparison; `true` if the database compares from now on.
    pub(super) async fn prepare(&self) -> Result<bool, PrepareError> {
        let wanted = self.settings.pgvector;
        if wanted == Pgvector::Off {
            return Ok(false);
        }
        match self.store.near_prepare().await? {
            NearVectorsState::Absent(why) if wanted == Pgvector::Required => Err(PrepareError::Absent(why)),
            NearVectorsState::Absent(why) => {
                if matches!(self.store.pool(), Pool::Postgres(_)) {
                    tracing::info!(%why, "vectors are compared in memory");
                }
                Ok(false)
            }
            NearVectorsState::Whole => {
                self.take_over();
                Ok(true)
            }
            NearVectorsState::Filling => {
                self.copies.store(true, Ordering::Release);
                // A small or empty store is copied before the first search.
                Ok(self.copy_page().await?)
            }
        }
    }

    pub(super) async fn keep_up(&self, model: Option<&ModelId>) -> Result<Upkeep, StoreError> {
        if self.copies.load(Ordering::Acquire) && !self.is_whole() {
            return Ok(if self.copy_page().await? { Upkeep::Done } else { Upkeep::Copying });
        }
        let Some(model) = model.filter(|model| self.compares(model)) else { return Ok(Upkeep::Done) };
        if self.store.graph_count(model).await? >= u64::from(self.settings.pgvector_graphs_max) {
            return Ok(Upkeep::Done);
        }
        let missing = self.store.graph_missing(model, self.settings.pgvector_exact_max).await?;
        Ok(missing.map_or(Upkeep::Done, Upkeep::GraphMissing))
    }

    /// Builds the index of a large account.
    pub(super) async fn make_graph(&self, number: i64, model: &ModelId) -> Result<(), StoreError> {
        if self.store.graph_make(number, model).await? {
            tracing::info!(account_index = number, "built the vector index of a large account");
        }
        Ok(())
    }

    /// The nearest chunks of some accounts, nearest first; in `spaces`, or anywhere.
    pub(super) async fn nearest(
        &self,
        store: &Store,
        account_indexes: &[AccountStatistics],
        model: &ModelId,
        query: &[f32],
        spaces: Option<&[SpaceId]>,
        wanted: ChunkLimits,
    ) -> Result<Vec<(ChunkId, f32)>, StoreError> {
        if let Some(spaces) = spaces {
            return store.nearest_in_spaces(account_indexes, spaces, model, query, wanted).await;
        }
        let mut near = Vec::new();
        for account_index in account_indexes {
            near.extend(store.nearest(account_index, model, query, wanted, self.settings.pgvector_exact_max).await?);
        }
        Ok(best(near, wanted.chunks_max))
    }

    /// Copies one page; `true` if the copy is complete.
    async fn copy_page(&self) -> Result<bool, StoreError> {
        let whole = self.store.near_fill(COPIED_AT_ONCE).await?;
        if whole {
            self.take_over();
        }
        Ok(whole)
    }

    fn take_over(&self) {
        self.copies.store(true, Ordering::Release);
        self.whole.store(true, Ordering::Release);
        tracing::info!("vectors are compared by the database");
    }
}

/// The `count` nearest candidates of several accounts.
pub(super) fn best(mut near: Vec<(ChunkId, f32)>, count: usize) -> Vec<(ChunkId, f32)> {
    near.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    near.truncate(count);
    near
}
