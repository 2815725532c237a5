//! Logs and metrics.
//!
//! Logs are structured lines with dotted fields (`event.id`, `actor.name`, `request.id`); secrets, codes, addresses of people and bodies
//! are never part of them: the types that hold them print as `…`.
//!
//! The metrics are in [`METRICS`].

mod catalogue;
mod histogram;
mod recorder;
mod requests;

pub mod lines;

use std::io::IsTerminal;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload::Handle;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

use self::lines::{JsonLines, RequestSpans, TextLines};

pub use catalogue::{METRICS, MetricType};
pub use recorder::Metrics;
pub use requests::{Requests, RouteCounts};

/// `[telemetry]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct Settings {
    pub log: String,
    pub format: LogFormat,
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text for people, with colours on a terminal.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl Default for Settings {
    fn default() -> Self {
        Self { log: "info".into(), format: LogFormat::default() }
    }
}

type ReplaceFilter = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

/// Replaces the filter of the process's log lines. Empty if another program set the subscriber.
static FILTER: OnceLock<ReplaceFilter> = OnceLock::new();

static RECORDED: OnceLock<Option<Metrics>> = OnceLock::new();

/// Starts logs to standard error and metrics. Only the first call of a process has an effect.
pub fn begin(settings: &Settings) {
    let filter = EnvFilter::try_new(&settings.log).unwrap_or_else(|_| EnvFilter::new("info"));
    let colours = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    match settings.format {
        LogFormat::Text => {
            let lines = lines.event_format(TextLines::default()).with_filter_reloading();
            keep_filter(lines.reload_handle(), &lines.finish().with(RequestSpans).try_init());
        }
        LogFormat::Json => {
            let lines = lines.fmt_fields(JsonFields::new()).event_format(JsonLines::default()).with_filter_reloading();
            keep_filter(lines.reload_handle(), &lines.finish().with(RequestSpans).try_init());
        }
    }
    supervision::name_requests(|| lines::current_request().map(|request| request.id.as_str().to_owned()));
    begin_counting();
}

/// Keeps the handle of the filter, unless another subscriber exists, as in a test that starts several servers.
fn keep_filter<S: 'static>(handle: Handle<EnvFilter, S>, begun: &Result<(), TryInitError>) {
    if begun.is_ok() {
        // Only the first subscriber of a process begins.
        let _ = FILTER.set(Box::new(move |filter| handle.reload(filter).map_err(|error| error.to_string())));
    }
}

/// Whether a text is a filter of log lines.
pub fn is_filter(text: &str) -> bool {
    EnvFilter::try_new(text).is_ok()
}

/// Replaces the filter of the log lines while they are written, and returns why it is not a filter.
pub fn replace_filter(filter: &str) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| error.to_string())?;
    FILTER.get().map_or(Ok(()), |replace| replace(filter))
}

/// Starts counting. Must be called before the first actor is created: addresses register their counters then.
pub fn begin_counting() -> Option<&'static Metrics> {
    RECORDED.get_or_init(Metrics::install).as_ref()
}

/// All metrics in the text format of Prometheus.
pub fn metrics_text() -> String {
    begin_counting().map(Metrics::render).unwrap_or_default()
}
