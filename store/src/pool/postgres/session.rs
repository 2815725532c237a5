//! One open connection, with the settings of a session.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Error, Row};
use tokio::time::{Instant, timeout};

use super::super::DatabaseSettings;

/// The PostgreSQL schema of the log, in the database of the facts. Statements name its tables without it, except for those that the facts have
/// too.
pub const SCHEMA_OF_LOG: &str = "statistics";

/// Time after which the server tries a silent client, and ends the session of one that does not answer.
const KEEPALIVE: [(&str, &str); 4] = [
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "20000"),
];

/// Longest time for a farewell.
const FAREWELL: Duration = Duration::from_secs(1);

/// An open connection. Dropping it closes the socket without a farewell.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) connection: PgConnection,
    /// Process of the server that serves it.
    pub(super) backend: i32,
    /// Generation of the pool in which it was opened.
    pub(super) generation: u64,
    pub(super) opened: Instant,
    _counted: Counted,
}

/// Counts an open connection until it is dropped.
#[derive(Debug)]
struct Counted(Arc<AtomicU32>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Session {
    /// Opens a connection and gives it its settings, within `longest`.
    pub(super) async fn open(
        (options, greeting): (&PgConnectOptions, &str),
        longest: Duration,
        generation: u64,
        open: &Arc<AtomicU32>,
    ) -> Result<Self, Error> {
        open.fetch_add(1, Ordering::AcqRel);
        let counted = Counted(Arc::clone(open));
        let opening = async {
            let mut connection = options.connect().await?;
            let greeting = sqlx::raw_sql(AssertSqlSafe(greeting.to_owned()));
            let backend = greeting.fetch_one(&mut connection).await?.try_get(0)?;
            Ok((connection, backend))
        };
        let (connection, backend) = timeout(longest, opening).await.unwrap_or_else(|_| Err(no_answer(longest)))?;
        Ok(Self { connection, backend, generation, opened: Instant::now(), _counted: counted })
    }

    /// Closes it with a farewell, which a server that is gone does not delay.
    pub(super) async fn close(self) {
        // The socket closes in any case.
        let _ = timeout(FAREWELL, self.connection.close()).await;
    }
}

/// The error of a server that does not answer.
pub(super) fn no_answer(waited: Duration) -> Error {
    Error::Io(io::Error::new(io::ErrorKind::TimedOut, format!("the database did not answer within {waited:?}")))
}

/// The statement that gives a connection its settings and returns the process of the server. A setting that a server does not know is left
/// out. `schema` is the only schema to look for tables in; without it the log's comes after the default.
pub(super) fn greeting(settings: &DatabaseSettings, schema: Option<&str>) -> String {
    let milliseconds = |time: Duration| time.as_millis().to_string();
    let path = match schema {
        Some(schema) => format!("'{schema}'"),
        None => format!("concat_ws(', ', NULLIF(current_setting('search_path'), ''), '{SCHEMA_OF_LOG}')"),
    };
    let timeouts = [
        ("client_min_messages", "error".to_owned()),
        ("statement_timeout", milliseconds(settings.statement_timeout)),
        ("lock_timeout", milliseconds(settings.lock_timeout)),
        ("idle_in_transaction_session_timeout", milliseconds(settings.idle_in_transaction_timeout)),
        // The server ends a statement whose client is gone.
        ("client_connection_check_interval", "1000".to_owned()),
    ];
    let known = timeouts.iter().map(|(name, value)| (*name, value.as_str())).chain(KEEPALIVE).map(|(name, value)| {
        format!("CASE WHEN current_setting('{name}', true) IS NOT NULL THEN set_config('{name}', '{value}', false) END")
    });
    let known: Vec<String> = known.collect();
    format!("SELECT pg_backend_pid(), set_config('search_path', {path}, false), {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_of_the_log_comes_after_the_default() {
        let settings = DatabaseSettings::default();
        assert!(greeting(&settings, None).contains("current_setting('search_path'), ''), 'statistics')"));
        assert!(greeting(&settings, Some("other")).contains("set_config('search_path', 'other', false)"));
        assert!(greeting(&settings, None).contains("set_config('lock_timeout', '1000', false)"));
    }
}
