//! Number of chunks with each common stem.
//!
//! The database counts a stem by reading all its entries, which takes milliseconds for a common one. Counts of common
//! stems are therefore cached, and used while the account has changed so little that they are right within a few
//! percent. All other counts are exact.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use store::chunk::AccountStatistics;
use store::{Store, StoreError};

/// Smaller counts are computed in microseconds and not cached.
const COMMON_MIN: u32 = 1_000;
/// A count expires when an account index has had one change per this number of entries,
const ENTRIES_OF_A_CHANGE: i64 = 256;
/// or has gained or lost one chunk per this number of entries.
const ENTRIES_OF_A_CHUNK: i64 = 64;
/// Maximum number of counts in memory: about 1 MB.
const KEPT_MAX: usize = 10_000;

/// Cache of the counts. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct StemCountCache {
    kept: Arc<Mutex<HashMap<(i64, String), CachedCount>>>,
}

/// A count, and the state of the account at that time.
#[derive(Debug, Clone, Copy)]
struct CachedCount {
    count: u32,
    changes: i64,
    chunks: i64,
}

impl CachedCount {
    /// The count, if it is still accurate.
    fn at(self, on: &AccountStatistics) -> Option<u32> {
        let count = i64::from(self.count);
        let changes = (on.changes - self.changes).abs();
        let chunks = (on.chunks - self.chunks).abs();
        (changes <= count / ENTRIES_OF_A_CHANGE && chunks <= count / ENTRIES_OF_A_CHUNK).then_some(self.count)
    }
}

impl StemCountCache {
    /// The number of an account's chunks with each of the stems.
    #[boxed]
    pub async fn of(&self, store: &Store, on: &AccountStatistics, stems: &[String]) -> Result<Vec<u32>, StoreError> {
        let mut counts: Vec<Option<u32>> = {
            let cache = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            stems.iter().map(|stem| cache.get(&(on.number, stem.clone())).and_then(|count| count.at(on))).collect()
        };
        let missing: Vec<String> =
            stems.iter().zip(&counts).filter(|(_, count)| count.is_none()).map(|(stem, _)| stem.clone()).collect();
        if !missing.is_empty() {
            let counted = store.stems_counted(on.number, &missing).await?;
            self.keep(on, missing.into_iter().zip(counted.iter().copied()));
            let mut counted = counted.into_iter();
            counts.iter_mut().filter(|count| count.is_none()).for_each(|count| *count = counted.next());
        }
        Ok(counts.into_iter().map(Option::unwrap_or_default).collect())
    }

    fn keep(&self, on: &AccountStatistics, counted: impl Iterator<Item = (String, u32)>) {
        let mut cache = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for (stem, count) in counted.filter(|(_, count)| *count >= COMMON_MIN) {
            if cache.len() >= KEPT_MAX {
                cache.clear();
            }
            cache.insert((on.number, stem), CachedCount { count, changes: on.changes, chunks: on.chunks });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account_index_at(changes: i64, chunks: i64) -> AccountStatistics {
        AccountStatistics { number: 1, chunks, words: 0, changes, languages: 0 }
    }

    #[test]
    fn a_count_is_used_until_the_account_index_has_changed_by_a_few_percent() {
        let cached = CachedCount { count: 2_560, changes: 100, chunks: 10_000 };
        for (changes, chunks, is_right) in [
            (100, 10_000, true),
            (110, 10_040, true),
            (90, 9_960, true),
            (111, 10_000, false),
            (110, 10_041, false),
            (110, 9_959, false),
        ] {
            assert_eq!(cached.at(&account_index_at(changes, chunks)), is_right.then_some(2_560), "{changes} {chunks}");
        }
    }

    #[test]
    fn only_common_stems_are_kept_and_no_more_than_fit() {
        let counts = StemCountCache::default();
        let stems = |from: usize, to: usize| (from..to).map(|nth| (format!("stem{nth}"), COMMON_MIN));
        counts.keep(&account_index_at(1, 1), [("rare".to_owned(), COMMON_MIN - 1)].into_iter());
        assert_eq!(counts.kept.lock().unwrap().len(), 0);
        counts.keep(&account_index_at(1, 1), stems(0, KEPT_MAX));
        assert_eq!(counts.kept.lock().unwrap().len(), KEPT_MAX);
        counts.keep(&account_index_at(1, 1), stems(KEPT_MAX, KEPT_MAX + 5));
        assert_eq!(counts.kept.lock().unwrap().len(), 5);
    }
}
