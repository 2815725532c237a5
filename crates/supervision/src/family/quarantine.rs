//! The keys that are refused because their actors crash too often. Pure: the caller passes the time.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use crate::settings::ActorSettings;

/// Expired records are removed when this many new ones were added.
const SWEEP_EVERY: usize = 256;

#[derive(Debug)]
pub(crate) struct Quarantine<K> {
    records: HashMap<K, Record>,
    sweep_at: usize,
}

#[derive(Debug)]
enum Record {
    /// Crashes inside the window, oldest first, fewer than the limit.
    Crashes(VecDeque<Instant>),
    /// In quarantine until this time; afterwards the key has a clean record.
    Until(Instant),
}

impl<K> Default for Quarantine<K> {
    fn default() -> Self {
        Self { records: HashMap::new(), sweep_at: SWEEP_EVERY }
    }
}

impl<K: Eq + Hash> Quarantine<K> {
    /// Records a crash of this key's actor. Returns whether the key is in quarantine because of it, for the `quarantine_for` that is in
    /// force now.
    pub(crate) fn on_crash(&mut self, settings: &ActorSettings, key: K, now: Instant) -> bool {
        let window = settings.quarantine_window;
        self.sweep(window, now);
        let record = self.records.entry(key).or_insert_with(|| Record::Crashes(VecDeque::new()));
        if !record.is_relevant(now, window) {
            *record = Record::Crashes(VecDeque::new());
        }
        let Record::Crashes(crashes) = record else { return false };
        crashes.retain(|&at| now < at + window);
        crashes.push_back(now);
        let is_quarantined = crashes.len() >= settings.quarantine_after as usize;
        if is_quarantined {
            *record = Record::Until(now + settings.quarantine_for);
        }
        is_quarantined
    }

    /// Fails with the remaining time if the key is in quarantine.
    pub(crate) fn check(&self, key: &K, now: Instant) -> Result<(), Duration> {
        match self.records.get(key) {
            Some(Record::Until(until)) if now < *until => Err(*until - now),
            _ => Ok(()),
        }
    }

    /// Number of keys in quarantine.
    pub(crate) fn count(&self, now: Instant) -> usize {
        self.records.values().filter(|record| matches!(record, Record::Until(until) if now < *until)).count()
    }

    /// Keeps memory proportional to the number of keys that crashed recently.
    fn sweep(&mut self, window: Duration, now: Instant) {
        if self.records.len() >= self.sweep_at {
            self.records.retain(|_, record| record.is_relevant(now, window));
            self.sweep_at = self.records.len() + SWEEP_EVERY;
        }
    }
}

impl Record {
    fn is_relevant(&self, now: Instant, window: Duration) -> bool {
        match self {
            Self::Crashes(crashes) => crashes.back().is_some_and(|&last| now < last + window),
            Self::Until(until) => now < *until,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct World {
        quarantine: Quarantine<u64>,
        settings: ActorSettings,
    }

    impl World {
        fn on_crash(&mut self, key: u64, now: Instant) -> bool {
            self.quarantine.on_crash(&self.settings, key, now)
        }
    }

    fn quarantine(after: u32, window: u64, lasts: u64) -> (World, Instant) {
        let settings = ActorSettings {
            quarantine_after: after,
            quarantine_window: Duration::from_secs(window),
            quarantine_for: Duration::from_secs(lasts),
            ..ActorSettings::default()
        };
        (World { quarantine: Quarantine::default(), settings }, Instant::now())
    }

    #[test]
    fn changed_settings_concern_the_next_crash_and_no_key_that_is_in_quarantine() {
        let (mut world, now) = quarantine(2, 60, 90);
        world.on_crash(1, now);
        assert!(world.on_crash(1, now));
        world.on_crash(2, now);
        world.settings.quarantine_for = Duration::from_secs(5);
        assert_eq!(world.quarantine.check(&1, now), Err(Duration::from_secs(90)), "it was put there for 90 s");
        assert!(world.on_crash(2, now));
        assert_eq!(world.quarantine.check(&2, now), Err(Duration::from_secs(5)));
        world.settings.quarantine_after = 1;
        assert!(world.on_crash(3, now));
        world.settings.quarantine_after = 2;
        world.settings.quarantine_window = Duration::from_secs(10);
        assert!(!world.on_crash(4, now));
        assert!(!world.on_crash(4, now + Duration::from_secs(10)), "the first crash is outside the window now");
    }

    #[test]
    fn crashes_far_apart_never_add_up() {
        let (mut world, mut now) = quarantine(2, 60, 60);
        for _ in 0..10 {
            assert!(!world.on_crash(1, now));
            now += Duration::from_mins(1);
        }
    }

    #[test]
    fn the_last_allowed_crash_quarantines_that_key_alone_for_its_time() {
        let (mut world, now) = quarantine(3, 60, 90);
        assert!(!world.on_crash(1, now));
        assert!(!world.on_crash(1, now));
        assert!(!world.on_crash(2, now));
        assert!(world.on_crash(1, now));
        assert_eq!(world.quarantine.check(&1, now), Err(Duration::from_secs(90)));
        assert_eq!(world.quarantine.check(&2, now), Ok(()));
        assert_eq!(world.quarantine.count(now), 1);
        let released = now + Duration::from_secs(90);
        assert_eq!(world.quarantine.check(&1, released), Ok(()));
        assert!(!world.on_crash(1, released), "a released key starts with a clean record");
    }

    #[test]
    fn keys_that_crashed_long_ago_take_no_memory() {
        let (mut world, now) = quarantine(1, 60, 60);
        for key in 0..100_000 {
            world.on_crash(key, now + Duration::from_secs(key));
        }
        assert!(world.quarantine.records.len() <= 60 + SWEEP_EVERY + 1, "{}", world.quarantine.records.len());
    }

    proptest! {
        #[test]
        fn a_key_is_quarantined_exactly_when_its_window_fills(
            after in 1_u32..5,
            gaps_ms in prop::collection::vec(0_u64..60_000, 1..40),
        ) {
            let (mut world, mut now) = quarantine(after, 60, 1);
            let mut counted: Vec<Instant> = Vec::new();
            for gap_ms in gaps_ms {
                now += Duration::from_millis(1_000 + gap_ms);
                counted.retain(|&at| now < at + Duration::from_mins(1));
                counted.push(now);
                let full = counted.len() >= after as usize;
                prop_assert_eq!(world.on_crash(7, now), full);
                if full {
                    counted.clear();
                }
            }
        }
    }
}
