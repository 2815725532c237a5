//! A queue that gives one item per key its turn, in order, and a bounded number of keys concurrently.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Items that wait for their turn, and the keys that have one.
#[derive(Debug)]
pub struct PerKeyQueue<K, T> {
    /// Keys that have a turn or wait for one, with the items after their first.
    keys: HashMap<K, VecDeque<T>>,
    /// First items of keys that wait for one of the places.
    ready: VecDeque<(K, T)>,
    running: usize,
    running_max: usize,
}

impl<K: Copy + Eq + Hash, T> PerKeyQueue<K, T> {
    /// At most `running_max` keys have a turn at once, and at least one.
    pub fn new(running_max: usize) -> Self {
        Self { keys: HashMap::new(), ready: VecDeque::new(), running: 0, running_max: running_max.max(1) }
    }

    /// Adds an item; returns it if it has its turn at once.
    pub fn arrive(&mut self, key: K, item: T) -> Option<T> {
        if let Some(behind) = self.keys.get_mut(&key) {
            behind.push_back(item);
            return None;
        }
        self.keys.insert(key, VecDeque::new());
        if self.running < self.running_max {
            self.running += 1;
            return Some(item);
        }
        self.ready.push_back((key, item));
        None
    }

    /// The turn of a key ends; returns the item that has its turn next, if one waits.
    pub fn leave(&mut self, key: K) -> Option<(K, T)> {
        self.running = self.running.saturating_sub(1);
        match self.keys.get_mut(&key).and_then(VecDeque::pop_front) {
            // Behind the keys that have waited longer.
            Some(item) => self.ready.push_back((key, item)),
            None => drop(self.keys.remove(&key)),
        }
        let next = self.ready.pop_front()?;
        self.running += 1;
        Some(next)
    }

    /// Whether no item waits or has its turn.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_item_has_its_turn_in_the_order_of_its_key_and_no_more_run_than_may(
            arrivals in prop::collection::vec(0_u8..5, 0..60), running_max in 1_usize..4, ends: Vec<bool>,
        ) {
            let mut turns = PerKeyQueue::new(running_max);
            let (mut running, mut starts): (Vec<u8>, BTreeMap<u8, Vec<usize>>) = (Vec::new(), BTreeMap::new());
            let mut ends = ends.into_iter();
            let mut begin = |running: &mut Vec<u8>, key: u8, item: usize| {
                assert!(!running.contains(&key), "two items of one key at once");
                running.push(key);
                starts.entry(key).or_default().push(item);
            };
            for (item, key) in arrivals.iter().copied().enumerate() {
                if turns.arrive(key, item).is_some() {
                    begin(&mut running, key, item);
                }
                prop_assert!(running.len() <= running_max);
                if ends.next().unwrap_or(false) && !running.is_empty() {
                    let ended = running.remove(0);
                    if let Some((key, item)) = turns.leave(ended) {
                        begin(&mut running, key, item);
                    }
                }
            }
            while !running.is_empty() {
                let ended = running.remove(0);
                if let Some((key, item)) = turns.leave(ended) {
                    begin(&mut running, key, item);
                }
            }
            prop_assert!(turns.is_empty());
            for (key, items) in starts {
                let expected = arrivals.iter().enumerate().filter(|(_, arrived)| **arrived == key).map(|(item, _)| item);
                prop_assert_eq!(items, expected.collect::<Vec<_>>());
            }
        }
    }
}
