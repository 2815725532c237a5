//! Cache of event counts: counts of a day that has ended never change.

use domain::usage::Day;
use quick_cache::sync::Cache;

/// Number of counts in memory, of some 50 bytes each.
const CACHED_MAX: usize = 65_536;

/// Counts of sources on days that have ended.
#[derive(Debug)]
pub struct EndedDays(Cache<(i64, Day), u32>);

impl Default for EndedDays {
    fn default() -> Self {
        Self(Cache::new(CACHED_MAX))
    }
}

impl EndedDays {
    /// The number of events of a source on a day.
    pub fn get(&self, source: i64, day: Day) -> Option<u32> {
        self.0.get(&(source, day))
    }

    /// Stores the number of events of a source on a day.
    pub fn insert(&self, source: i64, day: Day, events: u32) {
        self.0.insert((source, day), events);
    }
}
