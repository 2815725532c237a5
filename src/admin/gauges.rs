//! Gauges with values that are read at each request for the metrics.

use std::sync::{Arc, Mutex, PoisonError};

use app::App;
use domain::{Timestamp, reasons};
use statistics::log::LogStatus;
use statistics::parts::Logs;
use store::Pool;
use supervision::root::Node;

use super::coalesced::SharedProbe;
use super::readiness::pace;

/// Reads the values of the gauges. Clones share the last values.
#[derive(Debug, Clone, Default)]
pub(super) struct Gauges {
    standing: SharedProbe<LogStatus>,
    /// The last status: if the database does not respond, the reported age of the checkpoint continues to grow.
    last: Arc<Mutex<Option<LogStatus>>>,
}

impl Gauges {
    /// The state of the embedded log at the last reading.
    pub(super) fn last(&self) -> Option<LogStatus> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the gauges to the current values.
    pub(super) async fn refresh(&self, app: &App) {
        let database = if app.store.pool().is_postgres() { "postgresql" } else { "sqlite" };
        metrics::gauge!("attache_build_info", "version" => env!("CARGO_PKG_VERSION"), "database" => database).set(1.0);
        #[cfg(target_os = "linux")]
        super::process::refresh();
        if let Ok(tree) = app.root.tree(pace(app).deadline).await {
            budgets(&tree);
        }
        show("main", app.store.pool());
        if let Some(memory) = app.store.memory_apart() {
            show("memory", memory);
        }
        let Some(log) = app.upstream.logs().map(Logs::first) else { return };
        // On PostgreSQL the log uses the connections of the main database.
        if !log.pool().is_postgres() {
            show("log", log.pool());
        }
        let standing = self.standing.answer(pace(app), || {
            let log = log.clone();
            async move { log.standing().await.map_err(|error| reasons(&error)) }
        });
        let standing = standing.await;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match standing {
            Ok(standing) => *last = Some(standing),
            Err(error) => tracing::debug!(error, "the state of the log could not be read for its gauges"),
        }
        if let Some(standing) = *last {
            metrics::gauge!("attache_log_checkpoint_age_seconds").set(age_seconds(standing.signed_at, app.clock.now()));
            metrics::gauge!("attache_log_unplaced_events").set(as_f64(standing.unplaced));
            metrics::gauge!("attache_log_unindexed_events").set(as_f64(standing.unindexed));
        }
    }
}

fn budgets(tree: &Node) {
    for child in &tree.children {
        if let Some(budget) = &child.budget {
            let left = f64::from(budget.restarts_left);
            metrics::gauge!("attache_actor_restart_budget_left", "kind" => child.kind.clone()).set(left);
        }
    }
}

fn show(database: &'static str, pool: &Pool) {
    let connections = pool.connections();
    metrics::gauge!("attache_database_connections", "database" => database).set(as_f64(connections.open));
    metrics::gauge!("attache_database_connections_idle", "database" => database).set(as_f64(connections.idle));
    if let Some(waiting) = connections.waiting {
        metrics::gauge!("attache_database_writes_waiting", "database" => database).set(as_f64(waiting));
    }
    if let Some(bytes) = pool.wal_bytes() {
        metrics::gauge!("attache_database_wal_bytes", "database" => database).set(as_f64(bytes));
    }
}

fn age_seconds(signed_at: Timestamp, now: Timestamp) -> f64 {
    (now - signed_at).as_seconds_f64().max(0.0)
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float; these stay far below 2^52")]
pub(super) fn as_f64(number: u64) -> f64 {
    number as f64
}
