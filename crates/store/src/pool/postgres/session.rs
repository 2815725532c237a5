//! One open connection, with the settings of a session.
//!
//! A role, a database and a server have default settings for sessions, which an operator may change while nodes run. Therefore each new
//! session sets the values that durability requires, and reads them back. A session with unsuitable settings is closed at once.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use domain::live::Live;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Error, Row};
use tokio::time::{Instant, timeout};

use super::super::DatabaseSettings;
use super::hosts::{Server, ServerRole};

/// The PostgreSQL schema of the log, in the same database as the main database. Statements name its tables without the schema, except for
/// names that also exist in the main database.
pub const SCHEMA_OF_LOG: &str = "statistics";

/// Keepalive settings after which the server probes a silent client, and ends its session if it does not respond.
const KEEPALIVE: [(&str, &str); 4] = [
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "20000"),
];

/// Timeout of a graceful close.
const FAREWELL: Duration = Duration::from_secs(1);

/// SQL that identifies the server: its start time, its address and its port.
pub(super) const SERVER: &str =
    "concat_ws(' ', EXTRACT(EPOCH FROM pg_postmaster_start_time()), inet_server_addr(), inet_server_port())";

/// Error code of a server that lacks a function of [`SERVER`].
const UNDEFINED_FUNCTION: &str = "42883";

/// Overrides a read-only default of a role or a database. The default of a whole server is respected: operators set it on purpose, for
/// example when its disk is nearly full.
const WRITE_AS_THE_SERVER: &str = "CASE WHEN current_setting('default_transaction_read_only', true) = 'on' THEN
        CASE WHEN EXISTS (SELECT 1 FROM pg_settings WHERE name = 'default_transaction_read_only'
            AND source IN ('user', 'database', 'database user'))
        THEN set_config('default_transaction_read_only', 'off', false) END END";

/// An open connection. Dropping it closes the socket without a graceful close.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) connection: PgConnection,
    /// Server process of the connection.
    pub(super) backend: i32,
    /// Number of its host in the URL.
    pub(super) host: usize,
    /// Identifies the server; `None` if the server does not support the query.
    pub(super) server: Option<Arc<str>>,
    /// Whether its transactions cannot write.
    pub(super) is_read_only: bool,
    /// Generation of the pool in which it was opened.
    pub(super) generation: u64,
    pub(super) opened: Instant,
    _counted: Counted,
}

/// Why a session is rejected.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Unfit {
    /// A standby rejects writes, and its rows may be outdated.
    #[error("{0} is a standby (in recovery), which takes no writes: database.url has to lead to the primary")]
    Standby(String),
    /// The replica must be a standby.
    #[error("{0} is not a standby: database.replica_url has to lead to a streaming replica")]
    NoStandby(String),
    /// The server is read-only by default.
    #[error(
        "the server takes no writes: its default_transaction_read_only is on, as managed databases set it while their disk is nearly full"
    )]
    ReadOnly,
    /// The setting could lose acknowledged writes, and a session cannot change it.
    #[error("{0} is {1}, so that acknowledged writes could be lost")]
    Unsafe(&'static str, String),
    /// Only OpenSSL reads certificates of this version; Citus writes one.
    #[error(
        "the certificate of the server is of X.509 version 1, which rustls does not read: renew it as version 3, or add sslmode=disable to \
         database.url on a network that you trust"
    )]
    OldCertificate,
    /// The server ignored a setting.
    #[error("search_path is {0}, although the session has set another")]
    Path(String),
}

impl From<Unfit> for Error {
    fn from(unfit: Unfit) -> Self {
        Self::Io(io::Error::other(unfit))
    }
}

impl Unfit {
    /// The reason, if the error has this type.
    pub(super) fn of(error: &Error) -> Option<&Self> {
        let Error::Io(error) = error else { return None };
        error.get_ref()?.downcast_ref()
    }
}

/// Replaces an error that names no remedy.
fn explained(error: Error) -> Error {
    if domain::reasons(&error).contains("UnsupportedCertVersion") { Unfit::OldCertificate.into() } else { error }
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
    /// Opens a connection to the server with this number, applies and checks the settings, within `longest`.
    pub(super) async fn open(
        (number, server): (usize, &Server),
        greeting: &Greeting,
        longest: Duration,
        generation: u64,
        open: &Arc<AtomicU32>,
    ) -> Result<Self, Error> {
        open.fetch_add(1, Ordering::AcqRel);
        let counted = Counted(Arc::clone(open));
        let opening = async {
            let mut connection = server.options.connect().await.map_err(explained)?;
            let facts = greeting.exchange(&mut connection).await?;
            Ok((connection, facts))
        };
        let (connection, facts) = timeout(longest, opening).await.unwrap_or_else(|_| Err(no_answer(longest)))?;
        greeting.judge(&facts, &server.name)?;
        Ok(Self {
            connection,
            backend: facts.backend,
            host: number,
            server: facts.server.map(Arc::from),
            is_read_only: facts.is_read_only,
            generation,
            opened: Instant::now(),
            _counted: counted,
        })
    }

    /// Closes the connection gracefully, within [`FAREWELL`].
    pub(super) async fn close(self) {
        // The socket closes in any case.
        let _ = timeout(FAREWELL, self.connection.close()).await;
    }
}

/// The error of a server that does not respond.
pub(super) fn no_answer(waited: Duration) -> Error {
    Error::Io(io::Error::new(io::ErrorKind::TimedOut, format!("the database did not answer within {waited:?}")))
}

/// The first statements of a session, and the required results.
#[derive(Debug)]
pub(super) struct Greeting {
    role: ServerRole,
    /// Expressions that set the session's settings. A setting that the server does not support is left out.
    settings: Live<String>,
    /// The only schema in the search path; if it is absent, the log's schema is added after the default.
    schema: Option<&'static str>,
    /// The search path of the first session, which all others get, so that the schema of the tables does not change while the process runs.
    path: OnceLock<String>,
}

/// The server's response to the greeting.
#[derive(Debug)]
struct Facts {
    backend: i32,
    path: String,
    is_standby: bool,
    is_read_only: bool,
    fsync: String,
    synchronous_commit: String,
    server: Option<String>,
}

impl Greeting {
    pub(super) fn new(settings: &DatabaseSettings, schema: Option<&'static str>, role: ServerRole) -> Self {
        Self { role, settings: expressions(settings).into(), schema, path: OnceLock::new() }
    }

    /// Follows other settings from the next session on; `false` if they are the same for a session.
    pub(super) fn retune(&self, settings: &DatabaseSettings) -> bool {
        let settings = expressions(settings);
        let differ = **self.settings.get() != settings;
        if differ {
            self.settings.set(settings);
        }
        differ
    }

    /// Two statements in one message: the first sets the settings, the second reads the resulting values.
    fn statements(&self, names_server: bool) -> String {
        let path = match (self.path.get(), self.schema) {
            (Some(path), _) => format!("'{}'", path.replace('\'', "''")),
            (None, Some(schema)) => format!("'{schema}'"),
            (None, None) => {
                format!("concat_ws(', ', NULLIF(current_setting('search_path'), ''), '{SCHEMA_OF_LOG}')")
            }
        };
        let server = if names_server { SERVER } else { "CAST(NULL AS TEXT)" };
        format!(
            "SELECT set_config('search_path', {path}, false), {}; SELECT pg_backend_pid(), current_setting('search_path'),
                pg_is_in_recovery(), COALESCE(current_setting('default_transaction_read_only', true), 'off') = 'on',
                COALESCE(current_setting('fsync', true), 'on'), COALESCE(current_setting('synchronous_commit', true), 'on'),
                {server}",
            **self.settings.get()
        )
    }

    async fn exchange(&self, connection: &mut PgConnection) -> Result<Facts, Error> {
        let mut answer = ask(connection, self.statements(true)).await;
        if let Err(Error::Database(error)) = &answer
            && error.code().as_deref() == Some(UNDEFINED_FUNCTION)
        {
            answer = ask(connection, self.statements(false)).await;
        }
        let rows = answer?;
        let row = rows.last().ok_or(Error::RowNotFound)?;
        Ok(Facts {
            backend: row.try_get(0)?,
            path: row.try_get(1)?,
            is_standby: row.try_get(2)?,
            is_read_only: row.try_get(3)?,
            fsync: row.try_get(4)?,
            synchronous_commit: row.try_get(5)?,
            server: row.try_get(6)?,
        })
    }

    /// Rejects a session that is not suitable for the pool.
    fn judge(&self, facts: &Facts, server: &str) -> Result<(), Unfit> {
        match self.role {
            ServerRole::Primary if facts.is_standby => return Err(Unfit::Standby(server.to_owned())),
            ServerRole::Standby if !facts.is_standby => return Err(Unfit::NoStandby(server.to_owned())),
            // A standby writes nothing.
            ServerRole::Standby => {}
            ServerRole::Primary => {
                for (name, value) in [("fsync", &facts.fsync), ("synchronous_commit", &facts.synchronous_commit)] {
                    if value == "off" {
                        return Err(Unfit::Unsafe(name, value.clone()));
                    }
                }
            }
        }
        if self.path.get_or_init(|| facts.path.clone()) == &facts.path {
            Ok(())
        } else {
            Err(Unfit::Path(facts.path.clone()))
        }
    }
}

async fn ask(connection: &mut PgConnection, sql: String) -> Result<Vec<PgRow>, Error> {
    sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(connection).await
}

fn set_if_known(name: &str, value: &str) -> String {
    format!("CASE WHEN current_setting('{name}', true) IS NOT NULL THEN set_config('{name}', {value}, false) END")
}

/// The expressions that set the settings of a session.
fn expressions(settings: &DatabaseSettings) -> String {
    let milliseconds = |time: Duration| time.as_millis().to_string();
    let values = [
        ("client_min_messages", "error".to_owned()),
        ("statement_timeout", milliseconds(settings.statement_timeout)),
        ("lock_timeout", milliseconds(settings.lock_timeout)),
        ("idle_in_transaction_session_timeout", milliseconds(settings.idle_in_transaction_timeout)),
        // The server cancels a statement if its client has disconnected.
        ("client_connection_check_interval", "1000".to_owned()),
        // A statement reads the rows that were committed before it.
        ("default_transaction_isolation", "read committed".to_owned()),
        // JIT compilation takes longer than a short statement.
        ("jit", "off".to_owned()),
    ];
    let expressions = values.iter().map(|(name, value)| (*name, value.as_str())).chain(KEEPALIVE);
    let expressions = expressions.map(|(name, value)| set_if_known(name, &format!("'{value}'")));
    // `local` and `remote_write` wait for this server's disk; the operator chooses the standbys to wait for. Setting the current value
    // keeps it if the server's default changes.
    let commit = "CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END";
    let expressions = expressions.chain([set_if_known("synchronous_commit", commit), WRITE_AS_THE_SERVER.to_owned()]);
    let expressions: Vec<String> = expressions.collect();
    expressions.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting(schema: Option<&'static str>) -> Greeting {
        Greeting::new(&DatabaseSettings::default(), schema, ServerRole::Primary)
    }

    fn facts() -> Facts {
        Facts {
            backend: 1,
            path: "public, statistics".to_owned(),
            is_standby: false,
            is_read_only: false,
            fsync: "on".to_owned(),
            synchronous_commit: "remote_apply".to_owned(),
            server: None,
        }
    }

    #[test]
    fn the_schema_of_the_log_comes_after_the_default() {
        assert!(greeting(None).statements(true).contains("current_setting('search_path'), ''), 'statistics')"));
        assert!(greeting(Some("other")).statements(true).contains("set_config('search_path', 'other', false)"));
        assert!(greeting(None).statements(true).contains("set_config('lock_timeout', '1000', false)"));
    }

    #[test]
    fn the_search_path_is_that_of_the_first_session() {
        let greeting = greeting(None);
        let path = "\"$user\", \"o'hara\", statistics";
        greeting.judge(&Facts { path: path.to_owned(), ..facts() }, "h1").unwrap();
        let next = greeting.statements(true);
        assert!(next.contains(r#"set_config('search_path', '"$user", "o''hara", statistics', false)"#), "{next}");
        assert!(matches!(greeting.judge(&facts(), "h1"), Err(Unfit::Path(_))));
    }

    #[test]
    fn a_session_that_cannot_keep_the_promises_is_refused() {
        let primary = |facts: Facts| greeting(None).judge(&facts, "h1");
        assert!(primary(facts()).is_ok());
        assert!(primary(Facts { is_read_only: true, ..facts() }).is_ok(), "it can be read");
        assert!(matches!(primary(Facts { is_standby: true, ..facts() }), Err(Unfit::Standby(_))));
        for unsafe_facts in
            [Facts { fsync: "off".to_owned(), ..facts() }, Facts { synchronous_commit: "off".to_owned(), ..facts() }]
        {
            assert!(matches!(primary(unsafe_facts), Err(Unfit::Unsafe(..))));
        }
        let replica = Greeting::new(&DatabaseSettings::default(), None, ServerRole::Standby);
        assert!(matches!(replica.judge(&facts(), "h1"), Err(Unfit::NoStandby(_))));
        assert!(replica.judge(&Facts { is_standby: true, fsync: "off".to_owned(), ..facts() }, "h1").is_ok());
    }

    #[test]
    fn the_reason_is_found_in_the_error_of_the_driver() {
        let error = Error::from(Unfit::ReadOnly);
        assert!(matches!(Unfit::of(&error), Some(Unfit::ReadOnly)) && crate::error::is_unavailable(&error));
        assert!(Unfit::of(&Error::PoolTimedOut).is_none());
    }
}
