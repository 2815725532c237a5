//! Events and requests of the last ten minutes, sampled from the metrics of the process.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use app::{WeakApp, telemetry};

/// Time between two samples.
const EVERY: Duration = Duration::from_secs(10);

/// Maximum number of samples: ten minutes, and the sample before.
const SAMPLES_MAX: usize = 61;

/// Number of intervals in a minute.
const MINUTE: usize = 6;

/// The samples of this process. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Throughput(Arc<Mutex<VecDeque<Totals>>>);

/// Counts since the process started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Events that were forwarded.
    pub(super) forwarded: u64,
    /// Events that were held.
    pub(super) held: u64,
    /// Requests that were answered, on the public listeners.
    pub(super) requests: u64,
}

impl Totals {
    /// The counts in metrics of the text format of Prometheus.
    fn of(metrics: &str) -> Self {
        Self {
            forwarded: total(metrics, "attache_events_total", r#"outcome="forwarded""#),
            held: total(metrics, "attache_events_total", r#"outcome="held""#),
            requests: total(metrics, "attache_http_requests_total", ""),
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            forwarded: self.forwarded.saturating_sub(before.forwarded),
            held: self.held.saturating_sub(before.held),
            requests: self.requests.saturating_sub(before.requests),
        }
    }
}

impl Throughput {
    /// Takes a sample now and every ten seconds, until the server is dropped.
    pub(super) fn watch(&self, app: WeakApp) {
        let samples = self.clone();
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(EVERY);
            loop {
                ticks.tick().await;
                if app.upgrade().is_none() {
                    return;
                }
                samples.add(Totals::of(&telemetry::metrics_text()));
            }
        });
    }

    fn add(&self, sample: Totals) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() == SAMPLES_MAX {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// Counts of each interval, the oldest first.
    pub(super) fn intervals(&self) -> Vec<Totals> {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        samples.iter().zip(samples.iter().skip(1)).map(|(before, after)| after.since(*before)).collect()
    }
}

/// The sum of intervals of the last minute; `None` before a minute has passed.
pub(super) fn last_minute(intervals: &[Totals]) -> Option<Totals> {
    let last = intervals.len().checked_sub(MINUTE).and_then(|from| intervals.get(from..))?;
    Some(last.iter().fold(Totals::default(), |sum, one| Totals {
        forwarded: sum.forwarded + one.forwarded,
        held: sum.held + one.held,
        requests: sum.requests + one.requests,
    }))
}

/// The sum of a counter over the series with `label` in their labels; over all series if `label` is empty.
fn total(metrics: &str, name: &str, label: &str) -> u64 {
    let series = metrics.lines().filter_map(|line| line.strip_prefix(name)?.rsplit_once(' '));
    let counted = series.filter(|(labels, _)| (labels.is_empty() || labels.starts_with('{')) && labels.contains(label));
    counted.filter_map(|(_, value)| value.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = r#"# TYPE attache_events_total counter
attache_events_total{outcome="forwarded"} 12
attache_events_total{outcome="held"} 3
attache_events_total_other{outcome="held"} 100
attache_http_requests_total{method="GET",route="/a b",status="200"} 5
attache_http_requests_total{method="POST",route="/c",status="202"} 7
"#;

    #[test]
    fn counters_are_summed_over_their_labels() {
        assert_eq!(Totals::of(METRICS), Totals { forwarded: 12, held: 3, requests: 12 });
        assert_eq!(Totals::of(""), Totals::default());
    }

    #[test]
    fn intervals_are_differences_and_old_ones_are_dropped() {
        let throughput = Throughput::default();
        assert!(throughput.intervals().is_empty());
        for sample in 0..100 {
            throughput.add(Totals { forwarded: 2 * sample, held: sample, requests: 0 });
        }
        let intervals = throughput.intervals();
        assert_eq!(intervals, vec![Totals { forwarded: 2, held: 1, requests: 0 }; SAMPLES_MAX - 1]);
        assert_eq!(last_minute(&intervals), Some(Totals { forwarded: 12, held: 6, requests: 0 }));
        assert_eq!(last_minute(&intervals[..MINUTE - 1]), None);
    }
}
