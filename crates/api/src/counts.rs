//! A bounded count for each key, such as the connections of an address or the streams of an account.

use std::hash::Hash;
use std::sync::Arc;

use dashmap::DashMap;
use domain::live::Live;

/// The counts of all keys.
#[derive(Debug)]
pub struct Counts<K: Eq + Hash> {
    /// The counts; a key with a count of zero is absent.
    taken: DashMap<K, usize>,
    max: Live<usize>,
}

impl<K: Eq + Hash + Clone> Counts<K> {
    /// Counts with the maximum `max` per key; 0 means no limit.
    pub fn new(max: impl Into<Live<usize>>) -> Arc<Self> {
        Arc::new(Self { taken: DashMap::new(), max: max.into() })
    }

    /// Takes one unit for this key; `None` if the key has reached its maximum.
    pub fn take(self: &Arc<Self>, key: K) -> Option<Counted<K>> {
        let mut taken = self.taken.entry(key.clone()).or_insert(0);
        if *taken >= self.max() {
            return None;
        }
        *taken += 1;
        Some(Counted { counts: Arc::clone(self), key })
    }

    /// Whether all counts are zero.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }
}

impl<K: Eq + Hash> Counts<K> {
    fn max(&self) -> usize {
        match **self.max.get() {
            0 => usize::MAX,
            max => max,
        }
    }
}

/// One unit of a count, until it is dropped.
#[derive(Debug)]
pub struct Counted<K: Eq + Hash> {
    counts: Arc<Counts<K>>,
    key: K,
}

impl<K: Eq + Hash> Counted<K> {
    /// Whether more than half of the key's maximum is counted.
    pub fn is_crowded(&self) -> bool {
        self.counts.taken.get(&self.key).is_some_and(|taken| *taken > self.counts.max() / 2)
    }
}

impl<K: Eq + Hash> Drop for Counted<K> {
    fn drop(&mut self) {
        if let Some(mut taken) = self.counts.taken.get_mut(&self.key) {
            *taken = taken.saturating_sub(1);
        }
        self.counts.taken.remove_if(&self.key, |_, taken| *taken == 0);
    }
}
