//! The nearest vectors: compared in memory, a cache of the store, or by the database, where it can ([`database`]).
//!
//! In memory, every search first catches up with what its account has committed, so that whatever was acknowledged is found at once, and any
//! number of processes on one database agree. The shelves that nobody searches are dropped when memory runs short; the next
//! search reads them again.

pub mod database;
pub mod flat;
mod scan;
pub mod shelf;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use domain::ids::SpaceId;
use domain::memory::ModelId;
use serde::{Deserialize, Serialize};
use store::passage::{AccountStatistics, ChunkId, Wanted};
use store::{Store, StoreError};
use tokio::sync::RwLock;

use self::database::{Database, Pgvector};
use self::shelf::AccountIndex;

/// `[knowledge.search.index]`: how vectors are compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Whether the database compares the vectors.
    pub pgvector: Pgvector,
    /// Up to so many chunks of a shelf, the database compares all; for a larger shelf it makes an index.
    pub pgvector_exact_max: usize,
    /// Memory for the vectors of all accounts, in bytes. One account that needs more has it while it is searched.
    pub bytes_max: usize,
    /// Memories that are read from the store at once.
    pub page_memories: usize,
    /// Up to so many vectors of a shelf, all are compared; of more, those with a near sketch. A search of spaces always compares all
    /// that are in them.
    pub exact_max: usize,
    /// More vectors than this are divided among threads.
    pub rows_of_thread: usize,
    /// Most threads of one search.
    pub threads_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pgvector: Pgvector::Auto,
            pgvector_exact_max: 10_000,
            bytes_max: 2 << 30,
            page_memories: 500,
            exact_max: 250_000,
            rows_of_thread: 25_000,
            threads_max: 2,
        }
    }
}

impl Settings {
    /// What cannot be meant.
    pub fn problems(&self) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        for (name, value) in [
            ("page_memories", self.page_memories),
            ("rows_of_thread", self.rows_of_thread),
            ("threads_max", self.threads_max),
        ] {
            if value == 0 {
                problems.push((name.to_owned(), "must be at least 1".to_owned()));
            }
        }
        problems
    }
}

/// Finds the nearest vectors. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Index {
    store: Store,
    settings: Arc<Settings>,
    shelves: Arc<Mutex<HashMap<i64, Arc<Slot>>>>,
    /// Counts the searches: who was searched last stays longest.
    clock: Arc<AtomicU64>,
    database: Arc<Database>,
}

#[derive(Debug, Default)]
struct Slot {
    index: Arc<RwLock<Option<AccountIndex>>>,
    used: AtomicU64,
    bytes: AtomicUsize,
}

impl Index {
    /// Nothing in memory yet, where everything is compared until [`Index::prepare`].
    pub fn new(store: Store, settings: Settings) -> Self {
        Self {
            store,
            settings: Arc::new(settings),
            shelves: Arc::default(),
            clock: Arc::default(),
            database: Arc::default(),
        }
    }

    /// The chunks of some shelves that are nearest to a vector, each with about its cosine, nearest first; in `spaces`, or
    /// anywhere on them.
    pub async fn nearest(
        &self,
        shelves: &[AccountStatistics],
        model: &ModelId,
        query: Arc<[f32]>,
        spaces: Option<Arc<[SpaceId]>>,
        wanted: Wanted,
    ) -> Result<Vec<(ChunkId, f32)>, StoreError> {
        if self.database.compares(model) {
            return self.nearest_by_database(shelves, model, &query, spaces.as_deref(), wanted).await;
        }
        let mut near = Vec::new();
        for shelf in shelves {
            near.extend(self.nearest_in_memory(shelf, model, Arc::clone(&query), spaces.clone(), wanted).await?);
        }
        Ok(best(near, wanted.chunks_max))
    }

    async fn nearest_in_memory(
        &self,
        on: &AccountStatistics,
        model: &ModelId,
        query: Arc<[f32]>,
        spaces: Option<Arc<[SpaceId]>>,
        wanted: Wanted,
    ) -> Result<Vec<(ChunkId, f32)>, StoreError> {
        self.catch_up(on, model).await?;
        let (settings, index) = (Arc::clone(&self.settings), Arc::clone(&self.slot(on.number).index));
        let index = index.read_owned().await;
        let found = tokio::task::spawn_blocking(move || {
            // Dropped meanwhile, or of another model that somebody asked for in between: no candidates, words are left.
            let index = index.as_ref().filter(|index| usize::from(index.model().dimensions) == query.len());
            index.map_or_else(Vec::new, |index| index.nearest(&query, wanted, spaces.as_deref(), &settings))
        });
        // The scan is arithmetic; it ends early only with the runtime.
        Ok(found.await.unwrap_or_default())
    }

    /// Brings the index of a shelf to the change that `on` was read with, or further, unless the database compares.
    pub async fn catch_up(&self, on: &AccountStatistics, model: &ModelId) -> Result<(), StoreError> {
        if self.database.compares(model) {
            return Ok(());
        }
        let slot = self.slot(on.number);
        let current = |index: &Option<AccountIndex>| {
            index.as_ref().is_some_and(|index| index.model() == model && index.upto() >= on.changes)
        };
        if current(&*slot.index.read().await) {
            return Ok(());
        }
        let mut kept = slot.index.write().await;
        let index = match &mut *kept {
            Some(index) if index.model() == model => index,
            other => other.insert(AccountIndex::new(model)),
        };
        while index.upto() < on.changes {
            let page = self.settings.page_memories;
            let changes = self.store.shelf_changes(on.number, index.upto(), model, page).await?;
            index.apply(&changes)?;
        }
        slot.bytes.store(index.bytes(), Ordering::Relaxed);
        drop(kept);
        self.make_room(on.number);
        Ok(())
    }

    /// Bytes of memory, and vectors of shelves that nobody changes right now: for metrics.
    pub fn bytes(&self) -> usize {
        let shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        shelves.values().map(|slot| slot.bytes.load(Ordering::Relaxed)).sum()
    }

    /// How many shelves are in memory.
    pub fn shelves(&self) -> usize {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn slot(&self, number: i64) -> Arc<Slot> {
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = Arc::clone(shelves.entry(number).or_default());
        slot.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        slot
    }

    /// Drops the shelves that were not searched for the longest time, until the others fit.
    fn make_room(&self, keep: i64) {
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes: usize = shelves.values().map(|slot| slot.bytes.load(Ordering::Relaxed)).sum();
        while bytes > self.settings.bytes_max {
            let oldest = shelves.iter().filter(|(number, _)| **number != keep);
            let Some(number) =
                oldest.min_by_key(|(_, slot)| slot.used.load(Ordering::Relaxed)).map(|(number, _)| *number)
            else {
                return;
            };
            if let Some(slot) = shelves.remove(&number) {
                bytes -= slot.bytes.load(Ordering::Relaxed);
            }
        }
    }
}

/// The `count` nearest of what several shelves gave.
fn best(mut near: Vec<(ChunkId, f32)>, count: usize) -> Vec<(ChunkId, f32)> {
    near.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    near.truncate(count);
    near
}
