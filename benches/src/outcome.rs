//! The outcome of one run of the generator, the listener, or a floor that measures itself.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::process::Usage;

/// The result of one run, as it is printed by one process and read by another.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// Measured time in seconds.
    pub seconds: f64,
    /// Responses in that time, by status; records of the disk floor count as status 0.
    pub statuses: BTreeMap<u16, Answers>,
    /// All responses, including those of the warm-up: the divisor of the server's CPU time.
    pub answers_total: u64,
    /// All responses by status, including those of the warm-up.
    pub totals: BTreeMap<u16, u64>,
    /// Number of responses that contained the text of `Pace::holding`.
    pub holding: u64,
    /// Per lane, the number of requests that were answered with another status than `Pace::again_after`.
    pub lanes_done: Vec<usize>,
    /// Number of broken connections and malformed responses.
    pub failures: u64,
    /// Text of the first of these failures.
    pub first_failure: Option<String>,
    /// Requests that a run with a rate sent more than a millisecond after they were due.
    pub late: u64,
    /// CPU time in seconds of the measuring process during the measurement.
    pub own_cpu_seconds: f64,
    /// The same as a fraction of one core.
    pub own_cpu_share: f64,
    /// Peak resident memory of the measuring process in bytes.
    pub own_peak_bytes: u64,
}

/// Count and latencies of the responses of one status.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answers {
    /// Number of responses.
    pub count: u64,
    /// Median time from sending to the last byte, in microseconds.
    pub p50_us: f64,
    /// 99th percentile of the same, in microseconds.
    pub p99_us: f64,
    /// 99.9th percentile of the same, in microseconds.
    pub p999_us: f64,
    /// Maximum of the same, in microseconds.
    pub max_us: f64,
    /// The beginning of the first body, for reports of unexpected statuses.
    pub sample: String,
}

impl Answers {
    /// Computes the percentiles of the latencies of one status, in nanoseconds.
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
    /// A run in which every response had the same status.
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

    /// Prints one line of JSON for the process that started this one.
    pub fn print(&self) -> Result<()> {
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }

    /// Responses of one status per second.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub fn rate(&self, status: u16) -> f64 {
        self.answers(status).map_or(0.0, |answers| answers.count as f64 / self.seconds.max(f64::MIN_POSITIVE))
    }

    /// The responses of one status; `None` if there were none.
    pub fn answers(&self, status: u16) -> Option<&Answers> {
        self.statuses.get(&status)
    }

    /// Describes the responses whose status is none of `expected`; `None` if there are none.
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

/// A duration in nanoseconds, the unit in which latencies are collected.
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
