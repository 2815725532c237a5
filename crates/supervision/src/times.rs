//! Times of messages: how long each waited in its queue, and how long its handling took.
//!
//! An actor handles its messages one after the other. So the handling of a message starts when the message before it frees its place, or
//! when it arrives at an empty queue. Recording costs some additions to counters, and no allocation.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use metrics::Histogram;
use serde::{Deserialize, Serialize};

/// Counters of durations: 0 µs, and less than 2, 4, 8, … µs. The last one counts everything of 2^25 µs (34 s) and more.
const BUCKETS: usize = 27;

/// Microseconds of a slot of durations.
const MINUTE: u64 = 60_000_000;

/// Microseconds of a slot of the high-water mark.
const TEN_MINUTES: u64 = 10 * MINUTE;

/// What happened to the messages of one kind. Each number is of the current and the last full slot of time, so that it never starts from nothing.
pub(crate) struct Times {
    waits: Durations,
    handlings: Durations,
    /// The deepest queue of each slot: the number of the slot in the upper 32 bits, the depth in the lower ones.
    deepest: [AtomicU64; 2],
    wait_seconds: Histogram,
    handler_seconds: Histogram,
}

/// The messages of one kind in the last one to two minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageTimes {
    /// Messages handled a minute.
    pub handled_per_minute: u64,
    /// Microseconds that the median message waited in its queue; each duration is rounded up to a power of two.
    pub wait_p50_us: u64,
    /// Microseconds that 99 of 100 messages waited at most.
    pub wait_p99_us: u64,
    /// Microseconds that the handling of the median message took.
    pub handler_p50_us: u64,
    /// Microseconds that the handling of 99 of 100 messages took at most.
    pub handler_p99_us: u64,
    /// Messages in the deepest queue of one actor in the last ten to twenty minutes.
    pub deepest_queue: u64,
}

impl Times {
    pub(crate) fn new(wait_seconds: Histogram, handler_seconds: Histogram) -> Self {
        let deepest = [AtomicU64::new(0), AtomicU64::new(0)];
        Self { waits: Durations::default(), handlings: Durations::default(), deepest, wait_seconds, handler_seconds }
    }

    /// A message took a place in a queue, which then has this depth. Times are microseconds since the process started.
    pub(crate) fn arrived(&self, depth: u32, now: u64) {
        let slot = now / TEN_MINUTES;
        self.deepest[parity(slot)].fetch_max(slot << 32 | u64::from(depth), Ordering::Relaxed);
    }

    /// A message frees its place. `before` is when the message before it did.
    pub(crate) fn handled(&self, arrived: u64, before: u64, now: u64) {
        let start = before.max(arrived);
        let (wait, handling) = (start.saturating_sub(arrived), now.saturating_sub(start));
        self.waits.record(wait, now);
        self.handlings.record(handling, now);
        self.wait_seconds.record(seconds(wait));
        self.handler_seconds.record(seconds(handling));
    }

    /// The recent messages; `None` if there were none.
    pub(crate) fn snapshot(&self, now: u64) -> Option<MessageTimes> {
        let (waits, handlings) = (self.waits.recent(now), self.handlings.recent(now));
        let slot = now / TEN_MINUTES;
        let depth_of =
            |packed: u64| if packed >> 32 >= slot.saturating_sub(1) { packed & u64::from(u32::MAX) } else { 0 };
        let deepest = self.deepest.iter().map(|packed| depth_of(packed.load(Ordering::Relaxed))).max().unwrap_or(0);
        let number: u64 = handlings.iter().sum();
        if number == 0 && deepest == 0 {
            return None;
        }
        let passed = now.min(MINUTE + now % MINUTE).max(1);
        Some(MessageTimes {
            handled_per_minute: u64::try_from(u128::from(number) * u128::from(MINUTE) / u128::from(passed))
                .unwrap_or(u64::MAX),
            wait_p50_us: quantile(&waits, 50),
            wait_p99_us: quantile(&waits, 99),
            handler_p50_us: quantile(&handlings, 50),
            handler_p99_us: quantile(&handlings, 99),
            deepest_queue: deepest,
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "a duration is far below 2^52 microseconds")]
fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

fn parity(slot: u64) -> usize {
    usize::from(slot % 2 == 1)
}

/// Counted durations of the current minute and the one before.
#[derive(Default)]
struct Durations([Minute; 2]);

#[derive(Default)]
struct Minute {
    number: AtomicU64,
    counts: [AtomicU32; BUCKETS],
}

impl Durations {
    fn record(&self, micros: u64, now: u64) {
        let number = now / MINUTE;
        let minute = &self.0[parity(number)];
        // A message of another thread between the two steps may not be counted, at the begin of a minute.
        if minute.number.load(Ordering::Relaxed) != number && minute.number.swap(number, Ordering::Relaxed) != number {
            for count in &minute.counts {
                count.store(0, Ordering::Relaxed);
            }
        }
        let bucket = (u64::BITS - micros.leading_zeros()) as usize;
        minute.counts[bucket.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
    }

    fn recent(&self, now: u64) -> [u64; BUCKETS] {
        let since = (now / MINUTE).saturating_sub(1);
        let mut sums = [0; BUCKETS];
        for minute in self.0.iter().filter(|minute| minute.number.load(Ordering::Relaxed) >= since) {
            for (sum, count) in sums.iter_mut().zip(&minute.counts) {
                *sum += u64::from(count.load(Ordering::Relaxed));
            }
        }
        sums
    }
}

/// The upper bound of the bucket in which this share of the durations ends, in microseconds.
fn quantile(counts: &[u64; BUCKETS], percent: u64) -> u64 {
    let number: u64 = counts.iter().sum();
    let rank = (number * percent).div_ceil(100);
    let mut seen = 0;
    let bucket = counts.iter().position(|count| {
        seen += count;
        seen >= rank
    });
    bucket.filter(|bucket| *bucket > 0).map_or(0, |bucket| 1 << bucket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times() -> Times {
        Times::new(Histogram::noop(), Histogram::noop())
    }

    #[test]
    fn a_message_waits_for_the_one_before_it_and_is_handled_after_it() {
        let times = times();
        assert_eq!(times.snapshot(5), None);
        // 98 messages at an empty queue, handled in 3 µs each, then two that arrive together and take 1,000 µs each.
        for message in 0..98 {
            let at = 10_000 + message * 10;
            times.arrived(1, at);
            times.handled(at, at - 5, at + 3);
        }
        times.arrived(1, 20_000);
        times.arrived(2, 20_000);
        times.handled(20_000, 12_000, 21_000);
        times.handled(20_000, 21_000, 22_000);
        let found = times.snapshot(MINUTE / 2).unwrap();
        assert_eq!((found.wait_p50_us, found.wait_p99_us), (0, 0));
        assert_eq!((found.handler_p50_us, found.handler_p99_us), (4, 1024));
        assert_eq!((found.handled_per_minute, found.deepest_queue), (200, 2));
        times.handled(20_000, 22_000, 23_000);
        assert_eq!(times.snapshot(MINUTE / 2).unwrap().wait_p99_us, 1024);
    }

    #[test]
    fn numbers_are_of_the_current_minute_and_the_one_before() {
        let times = times();
        for minute in 0..3 {
            let at = minute * MINUTE;
            for _ in 0..60 {
                times.handled(at, at, at + 1);
            }
        }
        assert_eq!(times.snapshot(2 * MINUTE + MINUTE / 2).unwrap().handled_per_minute, 80);
        assert_eq!(times.snapshot(3 * MINUTE).unwrap().handled_per_minute, 60);
        assert_eq!(times.snapshot(4 * MINUTE), None);
    }

    #[test]
    fn the_deepest_queue_is_forgotten_after_ten_to_twenty_minutes() {
        let times = times();
        times.arrived(9, TEN_MINUTES - 1);
        times.arrived(3, TEN_MINUTES);
        assert_eq!(times.snapshot(2 * TEN_MINUTES - 1).unwrap().deepest_queue, 9);
        assert_eq!(times.snapshot(2 * TEN_MINUTES).unwrap().deepest_queue, 3);
        assert_eq!(times.snapshot(3 * TEN_MINUTES), None);
    }

    #[test]
    fn very_long_durations_are_counted_in_the_last_bucket() {
        let times = times();
        times.handled(0, 0, u64::MAX / 2);
        assert_eq!(times.snapshot(u64::MAX / 2).unwrap().handler_p99_us, 1 << 26);
    }
}
