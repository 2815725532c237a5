//! The recorder of counters, gauges and histograms.

use std::sync::Arc;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, SharedString, Unit};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use super::catalogue;
use super::histogram::Histograms;

/// Counters and gauges come from the library. Its histograms keep every value until the next scrape, so the server replaces them.
struct Recorder {
    prometheus: PrometheusRecorder,
    histograms: Arc<Histograms>,
}

/// Reads the recorded values.
#[derive(Debug)]
pub struct Metrics {
    prometheus: PrometheusHandle,
    histograms: Arc<Histograms>,
}

impl Metrics {
    /// Installs the recorder of the process; `None` if another one is installed.
    pub(super) fn install() -> Option<Self> {
        let prometheus = PrometheusBuilder::new().build_recorder();
        let metrics = Self { prometheus: prometheus.handle(), histograms: Arc::default() };
        let recorder = Recorder { prometheus, histograms: Arc::clone(&metrics.histograms) };
        catalogue::describe(&recorder);
        metrics::set_global_recorder(recorder).ok()?;
        Some(metrics)
    }

    /// All metrics, in the text format of Prometheus.
    pub(super) fn render(&self) -> String {
        let mut text = self.prometheus.render();
        self.histograms.render(&mut text);
        text
    }
}

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, description: SharedString) {
        self.prometheus.describe_counter(name, unit, description);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, description: SharedString) {
        self.prometheus.describe_gauge(name, unit, description);
    }

    fn describe_histogram(&self, name: KeyName, _unit: Option<Unit>, description: SharedString) {
        self.histograms.describe(name.as_str(), &description);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        self.prometheus.register_counter(key, metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        self.prometheus.register_gauge(key, metadata)
    }

    fn register_histogram(&self, key: &Key, _metadata: &Metadata<'_>) -> Histogram {
        self.histograms.register(key)
    }
}
