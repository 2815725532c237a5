//! Histograms with fixed buckets.
//!
//! Recording a value increments two counters and adds to a sum, without an allocation. The memory of a histogram does not depend on the
//! number of recorded values or the time of the last scrape.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{Histogram, HistogramFn, Key};

/// Upper bounds in seconds: from a poll answered from memory to a request that waited for its deadline.
const BOUNDS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 15.0];

/// All histograms of the process, by name and labels.
#[derive(Debug, Default)]
pub(super) struct Histograms {
    buckets: Mutex<BTreeMap<(String, String), Arc<Buckets>>>,
    /// Meanings by name.
    meanings: Mutex<BTreeMap<String, String>>,
}

/// Values of one histogram.
#[derive(Debug, Default)]
struct Buckets {
    /// Number of values between the previous bound and this one; the last counter is for values above all bounds.
    counts: [AtomicU64; BOUNDS.len() + 1],
    /// The bits of an `f64`.
    sum: AtomicU64,
}

impl HistogramFn for Buckets {
    fn record(&self, value: f64) {
        let bucket = BOUNDS.iter().position(|bound| value <= *bound).unwrap_or(BOUNDS.len());
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        let add = |sum| Some((f64::from_bits(sum) + value).to_bits());
        // The closure always returns a value, so this does not fail.
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

impl Histograms {
    /// Sets the meaning of the histograms of this name.
    pub(super) fn describe(&self, name: &str, meaning: &str) {
        let mut meanings = self.meanings.lock().unwrap_or_else(PoisonError::into_inner);
        meanings.insert(name.to_owned(), meaning.to_owned());
    }

    /// The histogram with this key; created if it does not exist.
    pub(super) fn register(&self, key: &Key) -> Histogram {
        let mut labels = String::new();
        for label in key.labels() {
            let value = label.value().replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
            // Writing to a string cannot fail.
            let _ = write!(labels, "{}=\"{value}\",", label.key());
        }
        let mut all = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        Histogram::from_arc(Arc::clone(all.entry((key.name().to_owned(), labels)).or_default()))
    }

    /// Appends all histograms in the text format of Prometheus.
    pub(super) fn render(&self, text: &mut String) {
        let all = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let meanings = self.meanings.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last = "";
        for ((name, labels), buckets) in all.iter() {
            // Writing to a string cannot fail.
            if last != name {
                if let Some(meaning) = meanings.get(name) {
                    let _ = writeln!(text, "# HELP {name} {meaning}");
                }
                let _ = writeln!(text, "# TYPE {name} histogram");
            }
            let _ = buckets.render(text, name, labels);
            last = name;
        }
    }
}

impl Buckets {
    fn render(&self, text: &mut String, name: &str, labels: &str) -> std::fmt::Result {
        let mut count = 0;
        for (at, bucket) in self.counts.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            match BOUNDS.get(at) {
                Some(bound) => writeln!(text, "{name}_bucket{{{labels}le=\"{bound}\"}} {count}")?,
                None => writeln!(text, "{name}_bucket{{{labels}le=\"+Inf\"}} {count}")?,
            }
        }
        let labels = labels.trim_end_matches(',');
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let sum = f64::from_bits(self.sum.load(Ordering::Relaxed));
        writeln!(text, "{name}_sum{labels} {sum}\n{name}_count{labels} {count}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_in_cumulative_buckets() {
        let histograms = Histograms::default();
        let one = histograms.register(&Key::from_parts("wait_seconds", &[("route", "a\"b")]));
        for value in [0.0005, 0.25, 0.5, 60.0] {
            one.record(value);
        }
        histograms.register(&Key::from_name("other_seconds")).record(0.125);
        histograms.describe("wait_seconds", "how long one waits");
        histograms.register(&Key::from_parts("wait_seconds", &[("route", "a\"b")])).record(0.75);
        let mut text = String::new();
        histograms.render(&mut text);
        let expected = r#"wait_seconds_bucket{route="a\"b",le="0.1"} 1
wait_seconds_bucket{route="a\"b",le="0.25"} 2
wait_seconds_bucket{route="a\"b",le="1"} 4
wait_seconds_bucket{route="a\"b",le="5"} 4
wait_seconds_bucket{route="a\"b",le="15"} 4
wait_seconds_bucket{route="a\"b",le="+Inf"} 5
wait_seconds_sum{route="a\"b"} 61.5005
wait_seconds_count{route="a\"b"} 5
"#;
        assert!(text.ends_with(expected), "{text}");
        assert!(text.starts_with("# TYPE other_seconds histogram\nother_seconds_bucket{le=\"0.0005\"} 0\n"), "{text}");
        assert!(
            text.contains("other_seconds_sum 0.125\nother_seconds_count 1\n# HELP wait_seconds how long one waits\n# TYPE wait_seconds histogram\n"),
            "{text}"
        );
    }
}
