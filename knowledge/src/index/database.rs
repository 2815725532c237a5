//! Vectors that the database compares: PostgreSQL with pgvector.
//!
//! Then a process needs no memory for vectors, however many accounts it serves and however many processes there are. It takes
//! over when everything that was kept before is copied ([`Index::keep_up`]); until then this process compares.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use domain::ids::SpaceId;
use domain::memory::ModelId;
use serde::{Deserialize, Serialize};
use store::passage::near::DIMENSIONS_MAX;
use store::passage::near::prepare::Prepared;
use store::passage::{ChunkId, Shelf};
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

/// What the database does.
#[derive(Debug, Default)]
pub(super) struct Database {
    /// It has a copy of the vectors, which need not be whole yet.
    copies: AtomicBool,
    /// The copy is whole.
    whole: AtomicBool,
    /// A graph is being made.
    making: Arc<AtomicBool>,
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

    /// One step of what the database needs to be fast: copies some vectors, or begins to make the index of a large shelf. `true`:
    /// there is more to copy.
    pub async fn keep_up(&self, model: Option<&ModelId>) -> Result<bool, StoreError> {
        if self.database.copies.load(Ordering::Acquire) && !self.database.whole.load(Ordering::Acquire) {
            return self.copy_page().await.map(|whole| !whole);
        }
        let Some(model) = model.filter(|model| self.database.compares(model)) else { return Ok(false) };
        if self.database.making.load(Ordering::Acquire) {
            return Ok(false);
        }
        if let Some(shelf) = self.store.graph_missing(model, self.settings.pgvector_exact_max).await? {
            self.database.making.store(true, Ordering::Release);
            let (store, model, making) = (self.store.clone(), model.clone(), Arc::clone(&self.database.making));
            // It may take longer than anybody waits; if this process ends, what is half made is dropped by the next.
            tokio::spawn(async move {
                match store.graph_make(shelf, &model).await {
                    Ok(true) => tracing::info!(shelf, "a large shelf has its own index of vectors"),
                    Ok(false) => {}
                    Err(error) => tracing::warn!(shelf, %error, "the index of a large shelf was not made"),
                }
                making.store(false, Ordering::Release);
            });
        }
        Ok(false)
    }

    /// Whether the database compares the vectors of a model.
    pub fn by_database(&self, model: &ModelId) -> bool {
        self.database.compares(model)
    }

    pub(super) async fn nearest_by_database(
        &self,
        shelves: &[Shelf],
        model: &ModelId,
        query: &[f32],
        spaces: Option<&[SpaceId]>,
        count: usize,
    ) -> Result<Vec<(ChunkId, f32)>, StoreError> {
        if let Some(spaces) = spaces {
            return self.store.nearest_in_spaces(shelves, spaces, model, query, count).await;
        }
        let mut near = Vec::new();
        for shelf in shelves {
            near.extend(self.store.nearest(shelf, model, query, count, self.settings.pgvector_exact_max).await?);
        }
        Ok(best(near, count))
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
