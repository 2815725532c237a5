//! Vectors that the database compares: PostgreSQL with pgvector.
//!
//! Then a process needs no memory for vectors, however many accounts it serves and however many processes there are. It takes
//! over when everything that was kept before is copied ([`Index::keep_up`]); until then this process compares.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::ids::SpaceId;
use domain::memory::ModelId;
use serde::{Deserialize, Serialize};
use store::passage::near::DIMENSIONS_MAX;
use store::passage::near::prepare::Prepared;
use store::passage::{AccountStatistics, ChunkId, Wanted};
use store::{Pool, StoreError};

use super::{Index, best};

/// Whether the database compares the vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pgvector {
    /// If it can.
    Auto,
    /// It must: without the extension there is no start.
    Required,
    /// Never.
    Off,
}

/// Why there is no start.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The store did not answer.
    #[error("cannot prepare the comparing of vectors")]
    Store(#[from] StoreError),
    /// The database cannot compare.
    #[error("knowledge.search.index.pgvector is \"required\", and {0}")]
    Absent(String),
}

/// Vectors that are copied at once. Meanwhile nobody changes anything on their shelves.
const COPIED_AT_ONCE: usize = 2_000;

/// What a step has left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upkeep {
    /// Nothing.
    Done,
    /// There is more to copy.
    Copying,
    /// This large shelf has no index yet ([`Index::make_graph`]).
    GraphMissing(i64),
}

/// What the database does.
#[derive(Debug, Default)]
pub(super) struct Database {
    /// It has a copy of the vectors, which need not be whole yet.
    copies: AtomicBool,
    /// The copy is whole.
    whole: AtomicBool,
}

impl Database {
    /// Whether it compares the vectors of a model. Of longer ones it can keep no index.
    pub(super) fn compares(&self, model: &ModelId) -> bool {
        self.whole.load(Ordering::Acquire) && model.dimensions <= DIMENSIONS_MAX
    }
}

impl Index {
    /// Lets the database compare, if it can and may. To be called once, at the start.
    pub async fn prepare(&self) -> Result<(), PrepareError> {
        let wanted = self.settings.pgvector;
        if wanted == Pgvector::Off {
            return Ok(());
        }
        match self.store.near_prepare().await? {
            Prepared::Absent(why) if wanted == Pgvector::Required => return Err(PrepareError::Absent(why)),
            Prepared::Absent(why) => {
                if matches!(self.store.pool(), Pool::Postgres(_)) {
                    tracing::info!(%why, "vectors are compared in memory");
                }
            }
            Prepared::Whole => self.take_over(),
            Prepared::Filling => {
                self.database.copies.store(true, Ordering::Release);
                // Little, or nothing at all, is copied before the first search.
                self.copy_page().await?;
            }
        }
        Ok(())
    }

    /// One step of what the database needs to be fast.
    pub async fn keep_up(&self, model: Option<&ModelId>) -> Result<Upkeep, StoreError> {
        if self.database.copies.load(Ordering::Acquire) && !self.database.whole.load(Ordering::Acquire) {
            return Ok(if self.copy_page().await? { Upkeep::Done } else { Upkeep::Copying });
        }
        let Some(model) = model.filter(|model| self.database.compares(model)) else { return Ok(Upkeep::Done) };
        let missing = self.store.graph_missing(model, self.settings.pgvector_exact_max).await?;
        Ok(missing.map_or(Upkeep::Done, Upkeep::GraphMissing))
    }

    /// Makes the index of a large shelf. It may take longer than anybody waits; what is half made is dropped by the next.
    pub async fn make_graph(&self, shelf_number: i64, model: &ModelId) -> Result<(), StoreError> {
        if self.store.graph_make(shelf_number, model).await? {
            tracing::info!(shelf = shelf_number, "a large shelf has its own index of vectors");
        }
        Ok(())
    }

    /// Whether the database compares the vectors of a model.
    pub fn by_database(&self, model: &ModelId) -> bool {
        self.database.compares(model)
    }

    pub(super) async fn nearest_by_database(
        &self,
        shelves: &[AccountStatistics],
        model: &ModelId,
        query: &[f32],
        spaces: Option<&[SpaceId]>,
        wanted: Wanted,
    ) -> Result<Vec<(ChunkId, f32)>, StoreError> {
        if let Some(spaces) = spaces {
            return self.store.nearest_in_spaces(shelves, spaces, model, query, wanted).await;
        }
        let mut near = Vec::new();
        for shelf in shelves {
            near.extend(self.store.nearest(shelf, model, query, wanted, self.settings.pgvector_exact_max).await?);
        }
        Ok(best(near, wanted.chunks_max))
    }

    /// `true`: the copy is whole.
    async fn copy_page(&self) -> Result<bool, StoreError> {
        let whole = self.store.near_fill(COPIED_AT_ONCE).await?;
        if whole {
            self.take_over();
        }
        Ok(whole)
    }

    fn take_over(&self) {
        self.database.copies.store(true, Ordering::Release);
        self.database.whole.store(true, Ordering::Release);
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner).clear();
        tracing::info!("vectors are compared by the database");
    }
}
