//! What one run of the generator, or of the disk floor, came to.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::options::Result;
use crate::usage::Usage;

/// The result of one run, as it is printed by one process and read by another.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// Time that was measured.
    pub seconds: f64,
    /// Answers in that time, by status; rows of the disk floor count as status 0.
    pub statuses: BTreeMap<u16, Answers>,
    /// All answers, those of the warm-up included: what the server's CPU time is divided by.
    pub answers_total: u64,
    /// The same by status.
    pub totals: BTreeMap<u16, u64>,
    /// How many of them held the text that the plan looked for.
    pub holding: u64,
    /// Per lane, how many requests were answered with anything but the status that is sent again.
    pub lanes_done: Vec<usize>,
    /// Broken connections and unreadable answers, with the first of them in words.
    pub failures: u64,
    /// See `failures`.
    pub first_failure: Option<String>,
    /// Requests that a paced run sent more than a millisecond after their time.
    pub late: u64,
    /// CPU time of the process that measured, while it measured.
    pub own_cpu_seconds: f64,
    /// The same as a part of one core.
    pub own_cpu_share: f64,
    /// Its peak memory.
    pub own_peak_bytes: u64,
}

/// The answers of one status.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answers {
    /// How many.
    pub count: u64,
    /// Time from sending to the last byte, in microseconds: median.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// Longest.
    pub max_us: f64,
    /// The beginning of the first body, for the reader of a surprise.
    pub sample: String,
}

impl Answers {
    /// Sorts out the latencies of one status, in nanoseconds.
    #[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^52 ns")]
    pub fn of(mut nanoseconds: Vec<u64>, sample: String) -> Self {
        nanoseconds.sort_unstable();
        let at = |per_mille: usize| {
            let place = (nanoseconds.len() * per_mille / 1000).min(nanoseconds.len().saturating_sub(1));
            nanoseconds.get(place).map_or(f64::NAN, |&value| value as f64 / 1000.0)
        };
        Self {
            count: nanoseconds.len() as u64,
            p50_us: at(500),
            p99_us: at(990),
            p999_us: at(999),
            max_us: at(1000),
            sample,
        }
    }
}

impl Outcome {
    /// A run in which every answer had one status.
    pub fn of(status: u16, answers: Answers, seconds: f64, own: Usage) -> Self {
        Self {
            seconds,
            answers_total: answers.count,
            totals: BTreeMap::from([(status, answers.count)]),
            holding: 0,
            statuses: BTreeMap::from([(status, answers)]),
            lanes_done: Vec::new(),
            failures: 0,
            first_failure: None,
            late: 0,
            own_cpu_seconds: own.cpu_seconds,
            own_cpu_share: own.cpu_seconds / seconds.max(f64::MIN_POSITIVE),
            own_peak_bytes: own.peak_bytes,
        }
    }

    /// For the process that reads it.
    pub fn print(&self) -> Result<()> {
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }

    /// Answers of one status per second.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub fn rate(&self, status: u16) -> f64 {
        self.answers(status).map_or(0.0, |answers| answers.count as f64 / self.seconds.max(f64::MIN_POSITIVE))
    }

    /// The answers of one status.
    pub fn answers(&self, status: u16) -> Option<&Answers> {
        self.statuses.get(&status)
    }

    /// In words, what came that is none of the `expected` statuses.
    pub fn surprises(&self, expected: &[u16]) -> Option<String> {
        let others = self.statuses.iter().filter(|(status, _)| !expected.contains(status));
        let mut words: Vec<String> =
            others.map(|(other, answers)| format!("{} × {other} {}", answers.count, answers.sample)).collect();
        if let Some(first) = &self.first_failure {
            words.push(format!("{} failures, first: {first}", self.failures));
        }
        (!words.is_empty()).then(|| words.join("; "))
    }
}

/// Nanoseconds of a duration, as latencies are kept.
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
