//! Whether the server still works on a statement that it has not answered.
//!
//! A slow statement and a dead connection look alike on the connection itself. So the server is asked over another one, which is opened for
//! that: a server that works on the statement is waited for, and one that never received it, has answered it already, or does not answer
//! at all is not. The other connection may lead to another server, behind a pooler or after a failover; that one cannot say anything.

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Error, Row};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::session::SERVER;

/// The result of an examination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The server works on the statement, or cannot say whether it does.
    Works,
    /// The server waits to send or to receive. If it does so again and again, the connection is dead.
    Waits,
    /// Another server answered. If that is so again and again, the server of the statement is likely to be gone.
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
    /// Its server; `None` if the engine cannot say.
    pub(super) server: Option<&'b str>,
}

/// Examines statements, one at a time.
#[derive(Debug, Default)]
pub(super) struct Examiner {
    /// The end of the last examination, if the server did not answer.
    failed: Mutex<Option<Instant>>,
}

impl Examiner {
    /// Asks for the work of a process of a server, for at most `longest`. Those who waited for another's examination share its result if the
    /// server did not answer.
    pub(super) async fn examine(&self, options: &PgConnectOptions, backend: Backend<'_>, longest: Duration) -> Verdict {
        let asked = Instant::now();
        let mut failed = self.failed.lock().await;
        if failed.is_some_and(|failed| failed > asked) {
            return Verdict::Unreachable;
        }
        let verdict = match timeout(longest, ask(options, backend)).await {
            Ok(Ok(verdict)) => verdict,
            // It answers, for example that it has no connection left.
            Ok(Err(Error::Database(_) | Error::ColumnDecode { .. })) => Verdict::Works,
            Ok(Err(_)) | Err(_) => Verdict::Unreachable,
        };
        *failed = (verdict == Verdict::Unreachable).then(Instant::now);
        verdict
    }
}

/// A process that was at work a moment ago may have sent an answer that is on its way. An engine without activity does not even list the
/// process that asks.
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
    let (here, found): (Option<String>, String) = (row.try_get(0)?, row.try_get(1)?);
    let verdict = match found.as_str() {
        // Without the name of its server, a process that is not found may be one of another.
        _ if server.is_some() && here.as_deref() != server => Verdict::Elsewhere,
        "works" => Verdict::Works,
        _ if server.is_none() => Verdict::Works,
        "waits" => Verdict::Waits,
        // A process that has ended works on nothing.
        _ => Verdict::Idle,
    };
    // The socket closes in any case.
    let _ = connection.close().await;
    Ok(verdict)
}
