//! The metrics of the server. Their texts are those of `docs/operations.md`; a test compares them.

use metrics::SharedString;

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    /// It only grows, until the process ends.
    Counter,
    /// The present value.
    Gauge,
    /// Values in buckets.
    Histogram,
}

/// Name, type and meaning of each metric of the server's own. No label ever contains an id.
pub const METRICS: [(&str, MetricType, &str); 50] = {
    use MetricType::{Counter, Gauge, Histogram};
    [
        ("attache_build_info", Gauge, "1; version of the program and type of the main database"),
        (
            "attache_config_reloads_total",
            Counter,
            "configurations that were read again: applied, unchanged or rejected",
        ),
        (
            "attache_config_last_reload_success_timestamp_seconds",
            Gauge,
            "seconds since 1970 of the last reading of a valid configuration; absent before",
        ),
        ("attache_paused", Gauge, "pauses in force, by paused part"),
        ("attache_http_requests_total", Counter, "responses"),
        ("attache_http_request_seconds", Histogram, "time from the head of the request to the response"),
        ("attache_events_total", Counter, "events that are forwarded, held, passed_through, unavailable"),
        (
            "attache_refusals_total",
            Counter,
            "refused requests, by the reason of 424 and 503, otherwise by the error code; polls that wait for a person are not counted",
        ),
        ("attache_events_held_total", Counter, "answers that held an event, by reason; a repetition counts again"),
        ("attache_log_tree_size", Gauge, "leaves of the tree"),
        ("attache_log_checkpoint_age_seconds", Gauge, "age of the newest checkpoint; it grows while no event arrives"),
        ("attache_log_unplaced_events", Gauge, "events without a place in the tree"),
        ("attache_log_unindexed_events", Gauge, "SQLite: events that the indexes do not contain yet"),
        ("attache_log_sequenced_total", Counter, "events that got their place"),
        (
            "attache_session_events_total",
            Counter,
            "events that were added to the sums of their sessions, or that name no session",
        ),
        ("attache_archive_put", Gauge, "events with bodies in the archive of the log"),
        ("attache_archive_removed", Gauge, "events with bodies that have left the database"),
        ("attache_archive_reads_total", Counter, "bundles of bodies that were read from the archive"),
        ("attache_log_halted", Gauge, "1 while the log is halted, for example after a restore or failover"),
        (
            "attache_database_connections",
            Gauge,
            "open connections to main, log and memory; on PostgreSQL main has all that have no own database",
        ),
        ("attache_database_connections_idle", Gauge, "open connections that are idle"),
        (
            "attache_store_seconds",
            Histogram,
            "time of a statement or transaction on the main database, until its outcome",
        ),
        ("attache_database_writes_waiting", Gauge, "SQLite: writes that wait"),
        ("attache_database_wal_bytes", Gauge, "SQLite: length of the write-ahead log of main and log, in bytes"),
        ("attache_mails_total", Counter, "mails sent, failed for now, given up"),
        (
            "attache_witness_answers_total",
            Counter,
            "answers of witnesses: cosigned, failed, and refused, which is a claim about another history",
        ),
        (
            "attache_webhooks_total",
            Counter,
            "notifications delivered, failed for now, given_up, and disabled with their endpoint; dropped counts the endpoints for each group of facts that found no room",
        ),
        (
            "attache_rule_messages_total",
            Counter,
            "messages of rules (match) and weekly digests (digest) that were written",
        ),
        ("attache_webhooks_sending", Gauge, "endpoints that are being sent to"),
        ("attache_actor_live", Gauge, "live actors"),
        ("attache_actor_mailbox_depth", Gauge, "waiting messages"),
        ("attache_actor_queue_wait_seconds", Histogram, "time of a message in the queue, until its handling started"),
        ("attache_actor_handler_seconds", Histogram, "time of the handling of a message, until its answer"),
        ("attache_actor_restarts_total", Counter, "restarts of supervised actors"),
        (
            "attache_actor_restart_budget_left",
            Gauge,
            "restarts that are left; the failure after the last one ends the process",
        ),
        ("attache_actor_crashes_total", Counter, "panics and failures"),
        ("attache_actor_stuck_total", Counter, "actors killed for lack of progress"),
        ("attache_actor_refused_total", Counter, "requests that an actor could not answer"),
        ("attache_actor_quarantined_total", Counter, "quarantined keys"),
        ("attache_pass_failures_total", Counter, "failed passes of periodic actors"),
        ("attache_nodes", Gauge, "living nodes in the table of nodes, this one included"),
        (
            "attache_node_clock_offset_seconds",
            Gauge,
            "PostgreSQL: seconds by which the machine's clock is ahead of the database's",
        ),
        ("attache_log_sequencer", Gauge, "1 while this node has the lease of the log's sequencer, otherwise 0"),
        (
            "attache_changes_listening",
            Gauge,
            "PostgreSQL: 1 while a connection listens for changes of other nodes, otherwise 0",
        ),
        ("process_cpu_seconds_total", Counter, "processor time, in whole seconds"),
        ("process_resident_memory_bytes", Gauge, "memory in use"),
        ("process_virtual_memory_bytes", Gauge, "address space"),
        ("process_threads", Gauge, "threads"),
        ("process_start_time_seconds", Gauge, "start of the process, in seconds since 1970"),
        ("process_open_fds", Gauge, "open file descriptors"),
    ]
};

/// Tells the recorder of the process what each metric means, for the `HELP` lines.
pub(super) fn describe(recorder: &impl metrics::Recorder) {
    for (name, kind, text) in METRICS {
        let text = SharedString::const_str(text);
        match kind {
            MetricType::Counter => recorder.describe_counter(name.into(), None, text),
            MetricType::Gauge => recorder.describe_gauge(name.into(), None, text),
            MetricType::Histogram => recorder.describe_histogram(name.into(), None, text),
        }
    }
}
