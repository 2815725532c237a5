//! Examines whether the server still works on an unanswered statement.
//!
//! On the connection itself, a slow statement cannot be distinguished from a broken connection. Therefore the server is examined over a new
//! connection. If the server works on the statement, the caller continues to wait; if the server never received it, has already answered
//! it, or does not respond, the caller gives up. Behind a pooler or after a failover the new connection may lead to another server, which
//! has no information about the statement.

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Error, Row};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::session::SERVER;

/// The result of an examination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The server works on the statement, or has no information about it.
    Works,
    /// The server waits to send or to receive. If this repeats, the connection is broken.
    Waits,
    /// Another server answered. If this repeats, the server of the statement has probably stopped.
    Elsewhere,
    /// The server does not work on the statement.
    Idle,
    /// The server does not answer.
    Unreachable,
}

/// A process of a server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backend<'b> {
    pub(super) process: i32,
    /// Its server; `None` if the server does not support the query.
    pub(super) server: Option<&'b str>,
}

/// Examines statements, one at a time.
#[derive(Debug, Default)]
pub(super) struct Examiner {
    /// The end of the last examination, if the server did not answer.
    failed: Mutex<Option<Instant>>,
}

impl Examiner {
    /// Examines a process of a server, for at most `longest`. Callers that waited for a concurrent examination share a result without
    /// response.
    pub(super) async fn examine(&self, options: &PgConnectOptions, backend: Backend<'_>, longest: Duration) -> Verdict {
        let start = Instant::now();
        let mut failed = self.failed.lock().await;
        if failed.is_some_and(|failed| failed > start) {
            return Verdict::Unreachable;
        }
        let verdict = match timeout(longest, ask(options, backend)).await {
            Ok(Ok(verdict)) => verdict,
            // The server responded, for example that it has no free connection.
            Ok(Err(Error::Database(_) | Error::ColumnDecode { .. })) => Verdict::Works,
            Ok(Err(_)) | Err(_) => Verdict::Unreachable,
        };
        *failed = (verdict == Verdict::Unreachable).then(Instant::now);
        verdict
    }
}

/// A process with a state change less than 500 ms ago counts as working, because its response may be in flight. A server without activity data
/// does not list even the querying process, and counts as working too.
async fn ask(options: &PgConnectOptions, backend: Backend<'_>) -> Result<Verdict, Error> {
    let mut connection = options.connect().await?;
    let Backend { process, server } = backend;
    let sql = format!(
        "SELECT {}, COALESCE((SELECT CASE
            WHEN state IS NULL OR state = 'disabled' OR clock_timestamp() - state_change < INTERVAL '500 ms' THEN 'works'
            WHEN state NOT IN ('active', 'fastpath function call') THEN 'idle'
            WHEN wait_event_type = 'Client' THEN 'waits' ELSE 'works' END
            FROM pg_stat_activity WHERE pid = {process}),
        CASE WHEN EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = pg_backend_pid()) THEN 'gone' ELSE 'works' END)",
        if server.is_some() { SERVER } else { "CAST(NULL AS TEXT)" }
    );
    let row = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_one(&mut connection).await?;
    let (here, activity): (Option<String>, String) = (row.try_get(0)?, row.try_get(1)?);
    let verdict = match activity.as_str() {
        // If the server has no name, a missing process may belong to another server.
        _ if server.is_some() && here.as_deref() != server => Verdict::Elsewhere,
        "works" => Verdict::Works,
        _ if server.is_none() => Verdict::Works,
        "waits" => Verdict::Waits,
        // A process that has ended works on no statement.
        _ => Verdict::Idle,
    };
    // The socket closes in any case.
    let _ = connection.close().await;
    Ok(verdict)
}
