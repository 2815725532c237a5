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

/// A key with recently crashed actors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrashedKey {
    /// The id that log lines name.
    pub key: String,
    /// Crashes in the window, or those that led to the quarantine.
    pub crashes: u32,
    /// Why the last actor crashed.
    pub error: String,
    /// The request that the last actor handled ([`name_requests`](crate::name_requests)).
    pub request: Option<String>,
    /// Time since the last crash.
    pub crashed_ago: Duration,
    /// Remaining time of the quarantine; `None` if the key is in none.
    pub quarantined_for: Option<Duration>,
}

#[derive(Debug)]
struct Record {
    state: State,
    /// The id in log lines.
    subject: String,
    /// Why the last actor crashed.
    error: String,
    request: Option<String>,
    last_at: Instant,
}

#[derive(Debug)]
enum State {
    /// Crashes inside the window, oldest first, fewer than the limit.
    Crashes(VecDeque<Instant>),
    /// In quarantine until this time after this many crashes; afterwards the key has a clean record.
    Until(Instant, u32),
}

/// Maximum number of characters of a kept error.
const ERROR_MAX: usize = 400;

impl<K> Default for Quarantine<K> {
    fn default() -> Self {
        Self { records: HashMap::new(), sweep_at: SWEEP_EVERY }
    }
}

impl<K: Eq + Hash> Quarantine<K> {
    /// Records a crash of this key's actor. Returns whether the key is in quarantine because of it, for the `quarantine_for` that is in
    /// force now.
    pub(crate) fn on_crash(
        &mut self,
        settings: &ActorSettings,
        (key, subject, error, request): (K, String, &str, Option<String>),
        now: Instant,
    ) -> bool {
        let window = settings.quarantine_window;
        self.sweep(window, now);
        let error = error.chars().take(ERROR_MAX).collect();
        let state = match self.records.remove(&key) {
            Some(known) if known.is_relevant(now, window) => known.state,
            _ => State::Crashes(VecDeque::new()),
        };
        let (state, is_quarantined) = match state {
            State::Until(..) => (state, false),
            State::Crashes(mut crashes) => {
                crashes.retain(|&at| now < at + window);
                crashes.push_back(now);
                if crashes.len() >= settings.quarantine_after as usize {
                    let number = u32::try_from(crashes.len()).unwrap_or(u32::MAX);
                    (State::Until(now + settings.quarantine_for, number), true)
                } else {
                    (State::Crashes(crashes), false)
                }
            }
        };
        self.records.insert(key, Record { state, subject, error, request, last_at: now });
        is_quarantined
    }

    /// The keys with crashes in the window, and those in quarantine.
    pub(crate) fn crashed(&self, window: Duration, now: Instant) -> Vec<CrashedKey> {
        let relevant = self.records.values().filter(|record| record.is_relevant(now, window));
        let described = |record: &Record| {
            let (crashes, quarantined_for) = match &record.state {
                State::Crashes(crashes) => {
                    let number = crashes.iter().filter(|&&at| now < at + window).count();
                    (u32::try_from(number).unwrap_or(u32::MAX), None)
                }
                State::Until(until, crashes) => (*crashes, Some(*until - now)),
            };
            let (key, error, request) = (record.subject.clone(), record.error.clone(), record.request.clone());
            CrashedKey { key, crashes, error, request, crashed_ago: now - record.last_at, quarantined_for }
        };
        relevant.map(described).collect()
    }

    /// Ends the quarantine of the keys with this subject, which get a clean record. Returns whether there was one.
    pub(crate) fn release(&mut self, subject: &str, now: Instant) -> bool {
        let before = self.records.len();
        self.records.retain(|_, record| record.subject != subject || !record.is_quarantined(now));
        self.records.len() < before
    }

    /// Fails with the remaining time if the key is in quarantine.
    pub(crate) fn check(&self, key: &K, now: Instant) -> Result<(), Duration> {
        match self.records.get(key).map(|record| &record.state) {
            Some(State::Until(until, _)) if now < *until => Err(*until - now),
            _ => Ok(()),
        }
    }

    /// Number of keys in quarantine.
    pub(crate) fn count(&self, now: Instant) -> usize {
        self.records.values().filter(|record| record.is_quarantined(now)).count()
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
        match &self.state {
            State::Crashes(crashes) => crashes.back().is_some_and(|&last| now < last + window),
            State::Until(..) => self.is_quarantined(now),
        }
    }

    fn is_quarantined(&self, now: Instant) -> bool {
        matches!(self.state, State::Until(until, _) if now < until)
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
            self.quarantine.on_crash(&self.settings, (key, format!("k{key}"), "boom", Some(format!("r{key}"))), now)
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
    fn crashed_keys_are_named_and_a_released_one_has_a_clean_record() {
        let (mut world, now) = quarantine(2, 60, 90);
        world.on_crash(1, now);
        world.on_crash(2, now);
        let later = now + Duration::from_secs(10);
        assert!(world.on_crash(1, later));
        let window = Duration::from_mins(1);
        let mut crashed = world.quarantine.crashed(window, later);
        crashed.sort_by(|one, other| one.key.cmp(&other.key));
        let found = |key: &str, crashes, ago, quarantined: Option<u64>| CrashedKey {
            key: key.to_owned(),
            crashes,
            error: "boom".to_owned(),
            request: Some(key.replace('k', "r")),
            crashed_ago: Duration::from_secs(ago),
            quarantined_for: quarantined.map(Duration::from_secs),
        };
        assert_eq!(crashed, [found("k1", 2, 0, Some(90)), found("k2", 1, 10, None)]);
        assert!(!world.quarantine.release("k2", later), "it is in no quarantine");
        assert!(world.quarantine.release("k1", later) && !world.quarantine.release("k1", later));
        assert_eq!(world.quarantine.check(&1, later), Ok(()));
        assert!(!world.on_crash(1, later), "its earlier crashes do not count");
        assert!(world.quarantine.crashed(window, later + window).is_empty());
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
