//! The outcome of a run of the generator or of the disk floor.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::options::Result;
use crate::usage::Usage;

/// The outcome of a run, passed between processes as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// Measured time in seconds.
    pub seconds: f64,
    /// Responses within that time by status; records of the disk floor have status 0.
    pub statuses: BTreeMap<u16, Answers>,
    /// All responses including the warm-up, by which the server's CPU time is divided.
    pub answers_total: u64,
    /// All responses by status.
    pub totals: BTreeMap<u16, u64>,
    /// Responses that contain the expected text of the plan.
    pub holding: u64,
    /// Per lane, requests with a final status, which is any but the one that is retried.
    pub lanes_done: Vec<usize>,
    /// Number of connection failures and invalid responses.
    pub failures: u64,
    /// Description of the first failure.
    pub first_failure: Option<String>,
    /// Requests of an open loop that were sent more than a millisecond late.
    pub late: u64,
    /// CPU time of the measuring process within the measurement.
    pub own_cpu_seconds: f64,
    /// The same as a fraction of one core.
    pub own_cpu_share: f64,
    /// Peak memory of the measuring process.
    pub own_peak_bytes: u64,
}

/// Responses with one status.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answers {
    /// Number of responses.
    pub count: u64,
    /// Median latency in microseconds, from sending to the last byte.
    pub p50_us: f64,
    /// 99th percentile of the same, in microseconds.
    pub p99_us: f64,
    /// 99.9th percentile of the same, in microseconds.
    pub p999_us: f64,
    /// Maximum latency.
    pub max_us: f64,
    /// Start of the first body, for the report of unexpected statuses.
    pub sample: String,
}

impl Answers {
    /// Computes the percentiles of latencies in nanoseconds.
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
    /// An outcome of responses with the same status.
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

    /// Prints the outcome for the reading process.
    pub fn print(&self) -> Result<()> {
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }

    /// Responses of one status per second.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub fn rate(&self, status: u16) -> f64 {
        self.answers(status).map_or(0.0, |answers| answers.count as f64 / self.seconds.max(f64::MIN_POSITIVE))
    }

    /// Responses of one status.
    pub fn answers(&self, status: u16) -> Option<&Answers> {
        self.statuses.get(&status)
    }

    /// Describes responses with other statuses than `expected`.
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

/// Nanoseconds of a duration, as latencies are stored.
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
