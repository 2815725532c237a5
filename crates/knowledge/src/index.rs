//! Finds the nearest vectors: in memory, as a cache of the store, or in the database ([`database`]).
//!
//! In memory, every search first applies recent commits of its accounts, so that acknowledged memories are found
//! immediately, and any number of processes can share a database. The least recently searched accounts are evicted when
//! memory runs short, and read again by their next search.

pub mod account;
pub mod database;
pub mod flat;
mod rows;
mod scan;
mod settings;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use domain::ids::SpaceId;
use domain::memory::ModelId;
use store::chunk::{AccountStatistics, ChunkId, ChunkLimits};
use store::{Store, StoreError};
use tokio::sync::RwLock;

use crate::blocking;

use self::account::AccountIndex;
use self::database::{Database, PrepareError, Upkeep, best};
pub use self::settings::Settings;

/// Maximum number of accounts in memory, regardless of their vectors.
const SLOTS_MAX: usize = 65_536;

/// Finds the nearest vectors. Clones share the state.
#[derive(Debug, Clone)]
pub struct Index {
    store: Store,
    settings: Arc<Settings>,
    account_indexes: Arc<Mutex<HashMap<i64, Arc<AccountSlot>>>>,
    /// Counts the searches, for the eviction of the least recently searched account.
    clock: Arc<AtomicU64>,
    database: Arc<Database>,
}

#[derive(Debug, Default)]
struct AccountSlot {
    index: Arc<RwLock<Option<AccountIndex>>>,
    used: AtomicU64,
    bytes: AtomicUsize,
}

impl Index {
    /// An index that compares in memory until [`Index::prepare`].
    pub fn new(store: Store, settings: Settings) -> Self {
        let settings = Arc::new(settings);
        let database = Arc::new(Database::new(store.clone(), Arc::clone(&settings)));
        Self { store, settings, account_indexes: Arc::default(), clock: Arc::default(), database }
    }

    /// Moves the comparison of vectors to the database, if it can and the settings allow it. Called when the database is open.
    #[boxed]
    pub async fn prepare(&self) -> Result<(), PrepareError> {
        if self.database.prepare().await? {
            self.forget_all();
        }
        Ok(())
    }

    /// One step of the database's upkeep: copies a page of vectors, or reports an account that needs an index.
    #[boxed]
    pub async fn keep_up(&self, model: Option<&ModelId>) -> Result<Upkeep, StoreError> {
        let compared = self.database.is_whole();
        let upkeep = self.database.keep_up(model).await?;
        if !compared && self.database.is_whole() {
            self.forget_all();
        }
        Ok(upkeep)
    }

    /// Builds the database's index of a large account. May take minutes; the next call drops an unfinished index.
    #[boxed]
    pub async fn make_graph(&self, number: i64, model: &ModelId) -> Result<(), StoreError> {
        self.database.make_graph(number, model).await
    }

    /// Whether the database compares the vectors of a model.
    pub fn by_database(&self, model: &ModelId) -> bool {
        self.database.compares(model)
    }

    /// The chunks of some accounts that are nearest to a vector, with their approximate cosine, nearest first; in
    /// `spaces`, or in all spaces. `store` is where the database compares.
    #[boxed]
    pub async fn nearest(
        &self,
        store: &Store,
        account_indexes: &[AccountStatistics],
        model: &ModelId,
        query: Arc<[f32]>,
        spaces: Option<Arc<[SpaceId]>>,
        wanted: ChunkLimits,
    ) -> Result<Vec<(ChunkId, f32)>, StoreError> {
        if self.database.compares(model) {
            return self.database.nearest(store, account_indexes, model, &query, spaces.as_deref(), wanted).await;
        }
        let mut near = Vec::new();
        for account_index in account_indexes {
            near.extend(
                self.nearest_in_memory(account_index, model, Arc::clone(&query), spaces.clone(), wanted).await?,
            );
        }
        Ok(best(near, wanted.chunks_max))
    }

    async fn nearest_in_memory(
        &self,
        on: &AccountStatistics,
        model: &ModelId,
        query: Arc<[f32]>,
        spaces: Option<Arc<[SpaceId]>>,
        wanted: ChunkLimits,
    ) -> Result<Vec<(ChunkId, f32)>, StoreError> {
        self.catch_up(on, model).await?;
        let (settings, index) = (Arc::clone(&self.settings), Arc::clone(&self.slot(on.number).index));
        let index = index.read_owned().await;
        let search = blocking::compute(move || {
            // Evicted in the meantime, or replaced by an index of another model: no candidates, and the lexical search
            // remains.
            let index = index.as_ref().filter(|index| usize::from(index.model().dimensions) == query.len());
            index.map_or_else(Vec::new, |index| index.nearest(&query, wanted, spaces.as_deref(), &settings))
        });
        Ok(search.await)
    }

    /// Applies the commits of an account up to `on.changes`, unless the database compares.
    #[boxed]
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
        let mut guard = slot.index.write().await;
        let index = match &mut *guard {
            Some(index) if index.model() == model => index,
            other => other.insert(AccountIndex::new(model)),
        };
        while index.upto() < on.changes {
            let page = self.settings.page_memories;
            let changes = self.store.account_index_changes(on.number, index.upto(), model, page).await?;
            index.apply(&changes)?;
        }
        slot.bytes.store(index.bytes(), Ordering::Relaxed);
        drop(guard);
        self.make_room(on.number);
        Ok(())
    }

    /// Memory of all accounts' vectors, in bytes.
    pub fn bytes(&self) -> usize {
        let account_indexes = self.account_indexes.lock().unwrap_or_else(PoisonError::into_inner);
        account_indexes.values().map(|slot| slot.bytes.load(Ordering::Relaxed)).sum()
    }

    /// Number of accounts in memory.
    pub fn account_indexes(&self) -> usize {
        self.account_indexes.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn forget_all(&self) {
        self.account_indexes.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn slot(&self, number: i64) -> Arc<AccountSlot> {
        let mut account_indexes = self.account_indexes.lock().unwrap_or_else(PoisonError::into_inner);
        if account_indexes.len() >= SLOTS_MAX && !account_indexes.contains_key(&number) {
            forget_half(&mut account_indexes);
        }
        let slot = Arc::clone(account_indexes.entry(number).or_default());
        slot.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        slot
    }

    /// Evicts the least recently searched accounts until the others fit.
    fn make_room(&self, keep: i64) {
        let mut account_indexes = self.account_indexes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes: usize = account_indexes.values().map(|slot| slot.bytes.load(Ordering::Relaxed)).sum();
        while bytes > self.settings.bytes_max {
            let oldest = account_indexes.iter().filter(|(number, _)| **number != keep);
            let Some(number) =
                oldest.min_by_key(|(_, slot)| slot.used.load(Ordering::Relaxed)).map(|(number, _)| *number)
            else {
                return;
            };
            if let Some(slot) = account_indexes.remove(&number) {
                bytes -= slot.bytes.load(Ordering::Relaxed);
            }
        }
    }
}

/// Forgets the less recently searched half of the accounts at once: a search for each single victim would read all
/// accounts.
fn forget_half(account_indexes: &mut HashMap<i64, Arc<AccountSlot>>) {
    let mut used: Vec<u64> = account_indexes.values().map(|slot| slot.used.load(Ordering::Relaxed)).collect();
    let middle = used.len() / 2;
    let (_, median, _) = used.select_nth_unstable(middle);
    let median = *median;
    account_indexes.retain(|_, slot| slot.used.load(Ordering::Relaxed) >= median);
}

#[cfg(test)]
mod tests {
    use store::DatabaseSettings;

    use super::*;

    #[tokio::test]
    async fn the_accounts_that_were_searched_least_recently_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&DatabaseSettings::default(), &folder.path().join("index.db")).await.unwrap();
        let index = Index::new(store, Settings::default());
        let first = index.slot(0);
        first.bytes.store(1, Ordering::Relaxed);
        for number in 1..i64::try_from(SLOTS_MAX).unwrap() {
            index.slot(number);
        }
        assert_eq!(index.account_indexes(), SLOTS_MAX);
        // Searched again: the newest of all.
        assert_eq!(index.slot(0).bytes.load(Ordering::Relaxed), 1);
        assert_eq!(index.account_indexes(), SLOTS_MAX);
        index.slot(-1);
        assert_eq!(index.account_indexes(), SLOTS_MAX / 2 + 1);
        assert_eq!(index.slot(0).bytes.load(Ordering::Relaxed), 1, "the one that was searched again is kept");
    }
}
