//! Logs and metrics.
//!
//! Logs are structured lines with dotted fields (`event.id`, `actor.name`, `request.id`); secrets, codes, addresses of people and bodies
//! are never part of them: the types that hold them print as `…`.
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
//! | `attache_log_checkpoint_age_seconds` | gauge | – | since the last checkpoint was signed; it grows while no event comes |
//! | `attache_log_unplaced_events` | gauge | – | events of the embedded log that have no place in its tree yet |
//! | `attache_log_unindexed_events` | gauge | – | events of the embedded log that its indexes do not have yet (SQLite) |
//! | `attache_log_sequenced_total` | counter | – | events given their place in the tree |
//! | `attache_session_events_total` | counter | – | events that sessions of agents include, or that name none |
//! | `attache_log_halted` | gauge | – | 1 while the log does not continue a remembered checkpoint and is not signed |
//! | `attache_database_connections` | gauge | `database` | open connections to `main` and to `log` |
//! | `attache_database_connections_idle` | gauge | `database` | open connections that are not in use |
//! | `attache_store_seconds` | histogram | `operation` | time of a statement or transaction on the main database, until its outcome |
//! | `attache_database_writes_waiting` | gauge | `database` | SQLite: writes that wait for their turn |
//! | `attache_database_wal_bytes` | gauge | `database` | SQLite: length of the write-ahead log beside the file |
//! | `attache_mails_total` | counter | `outcome` | mails sent, failed for now, given up |
//! | `attache_witness_answers_total` | counter | `outcome` | answers of witnesses: cosigned, failed, refused |
//! | `attache_actor_restarts_total` | counter | `kind` | restarts of supervised actors |
//! | `attache_actor_live` | gauge | `kind` | living actors |
//! | `attache_actor_crashes_total` | counter | `kind` | actors that panicked or failed |
//! | `attache_actor_stuck_total` | counter | `kind` | actors killed because they finished nothing |
//! | `attache_actor_refused_total` | counter | `kind`, `reason` | questions that actors could not answer |
//! | `attache_actor_quarantined_total` | counter | `kind` | keys put into quarantine |
//! | `attache_actor_mailbox_depth` | gauge | `kind` | messages waiting |
//! | `attache_pass_failures_total` | counter | `name` | passes of periodic actors that failed |
//! | `attache_nodes` | gauge | – | living nodes, this one included |
//! | `attache_node_clock_offset_seconds` | gauge | – | how far the machine's clock is ahead of the database's (PostgreSQL) |
//! | `attache_log_sequencer` | gauge | – | 1 while this process has the lease of the sequencer |
//! | `attache_changes_listening` | gauge | – | 1 while a connection listens for changes of other nodes (PostgreSQL) |

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
use tracing_subscriber::util::SubscriberInitExt as _;

use self::lines::{JsonLines, RequestSpans, TextLines};

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

static METRICS: OnceLock<Option<Metrics>> = OnceLock::new();

/// Starts logs to standard error and metrics. Only the first call of a process has an effect.
pub fn begin(settings: &Settings) {
    let filter = EnvFilter::try_new(&settings.log).unwrap_or_else(|_| EnvFilter::new("info"));
    let colours = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    // Fails if a subscriber exists, as in a test that starts several servers.
    let _ = match settings.format {
        LogFormat::Text => lines.event_format(TextLines::default()).finish().with(RequestSpans).try_init(),
        LogFormat::Json => lines
            .fmt_fields(JsonFields::new())
            .event_format(JsonLines::default())
            .finish()
            .with(RequestSpans)
            .try_init(),
    };
    begin_counting();
}

/// Starts counting. Must be called before the first actor is created: addresses register their counters then.
pub fn begin_counting() -> Option<&'static Metrics> {
    METRICS.get_or_init(Metrics::install).as_ref()
}

/// All metrics in the text format of Prometheus.
pub fn metrics_text() -> String {
    begin_counting().map(Metrics::render).unwrap_or_default()
}
