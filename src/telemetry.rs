//! Logs and metrics.
//!
//! Logs are structured lines with dotted fields (`event.id`, `actor.name`, `request.id`); secrets, codes, addresses of people and bodies
//! never stand in them: the types that hold them print as `…`.
//!
//! Metrics, all of them; no label ever holds an id:
//!
//! | name | kind | labels | what |
//! |---|---|---|---|
//! | `attache_http_requests_total` | counter | `method`, `route`, `status` | requests answered |
//! | `attache_http_request_seconds` | histogram | `route` | time from head to answer |
//! | `attache_events_total` | counter | `outcome` | events forwarded, held, passed through, unavailable |
//! | `attache_events_held_total` | counter | `reason` | events held |
//! | `attache_log_tree_size` | gauge | – | leaves in the embedded log's tree |
//! | `attache_log_sequenced_total` | counter | – | events given their place in the tree |
//! | `attache_mails_total` | counter | `outcome` | letters sent, failed for now, given up |
//! | `attache_actor_restarts_total` | counter | `kind` | restarts of supervised actors |
//! | `attache_actor_live` | gauge | `kind` | living actors |
//! | `attache_actor_crashes_total` | counter | `kind` | actors that panicked or failed |
//! | `attache_actor_stuck_total` | counter | `kind` | actors killed because they finished nothing |
//! | `attache_actor_refused_total` | counter | `kind`, `reason` | questions that actors could not answer |
//! | `attache_actor_quarantined_total` | counter | `kind` | keys put into quarantine |
//! | `attache_actor_mailbox_depth` | gauge | `kind` | messages waiting |

pub mod lines;

use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::JsonFields;

use self::lines::{JsonLines, TextLines};

/// `[telemetry]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Which log lines are written: a level, or a filter such as `info,attache=debug`.
    pub log: String,
    /// How they are written.
    pub format: LogFormat,
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
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

static METRICS: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Begins to write logs to standard error and to count. The first call of a process wins.
pub fn begin(settings: &Settings) {
    let filter = EnvFilter::try_new(&settings.log).unwrap_or_else(|_| EnvFilter::new("info"));
    let colours = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    // Fails when a subscriber is there already, as in a test that starts several servers.
    let _ = match settings.format {
        LogFormat::Text => lines.event_format(TextLines::default()).try_init(),
        LogFormat::Json => lines.fmt_fields(JsonFields::new()).event_format(JsonLines::default()).try_init(),
    };
    begin_counting();
}

/// Begins to count. Before the first actor is made: addresses take their counters when they are made.
pub fn begin_counting() -> Option<&'static PrometheusHandle> {
    /// Seconds; from a poll answered out of memory to a request that waited for its deadline.
    const BUCKETS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 15.0];
    let install = || {
        let builder = PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &BUCKETS);
        builder.ok()?.install_recorder().ok()
    };
    METRICS.get_or_init(install).as_ref()
}

/// All metrics in the text format of Prometheus.
pub fn metrics_text() -> String {
    begin_counting().map(PrometheusHandle::render).unwrap_or_default()
}

/// Counts one answered request.
pub fn request_answered(method: &Method, route: &str, status: StatusCode, took: Duration) {
    let method = match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    };
    let route = metrics::SharedString::from(route.to_owned());
    let status = metrics::SharedString::from(status.as_u16().to_string());
    metrics::counter!("attache_http_requests_total", "method" => method, "route" => route.clone(), "status" => status)
        .increment(1);
    metrics::histogram!("attache_http_request_seconds", "route" => route).record(took.as_secs_f64());
}
