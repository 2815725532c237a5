//! Knobs of the connections to a database.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// `[database]`: which database, and the limits of the connections to it. Times are written as "10s", "5m".
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DatabaseSettings {
    /// `postgres://…`; absent: SQLite in the data folder. May hold a password.
    pub url: Option<String>,
    /// PostgreSQL: a streaming replica that answers activity, proofs and searches. May hold a password.
    pub replica_url: Option<String>,
    /// PostgreSQL: how old the newest commit may be that the replica lacks; beyond it, its reads run on the primary.
    #[serde(with = "humantime_serde")]
    pub replica_lag_max: Duration,
    /// PostgreSQL: longest wait for a page, a proof or the state of an account from the replica; after it the primary is asked.
    #[serde(with = "humantime_serde")]
    pub replica_deadline: Duration,
    /// PostgreSQL: most connections of this process to the database.
    pub connections_max: u32,
    /// SQLite: most connections that read, beside the one that writes; at most as many again answer short reads.
    pub readers_max: u32,
    /// PostgreSQL: announce changes to other nodes (`NOTIFY`) and listen for theirs on one of the connections. Without it they are read once a
    /// second.
    pub notify: bool,
    /// Longest wait for a free connection.
    #[serde(with = "humantime_serde")]
    pub acquire_timeout: Duration,
    /// PostgreSQL: longest time for opening a connection.
    #[serde(with = "humantime_serde")]
    pub connect_timeout: Duration,
    /// PostgreSQL: time without an answer to a statement after which the server is examined over another connection.
    #[serde(with = "humantime_serde")]
    pub silent_after: Duration,
    /// SQLite: longest wait for another process that writes.
    #[serde(with = "humantime_serde")]
    pub busy_timeout: Duration,
    /// PostgreSQL: longest run of one statement.
    #[serde(with = "humantime_serde")]
    pub statement_timeout: Duration,
    /// PostgreSQL: longest wait of a statement for a lock.
    #[serde(with = "humantime_serde")]
    pub lock_timeout: Duration,
    /// PostgreSQL: after this, the server ends a transaction in which nothing happens, so that a frozen process keeps no lock.
    #[serde(with = "humantime_serde")]
    pub idle_in_transaction_timeout: Duration,
    /// SQLite: bytes of the write-ahead log after which it is copied into the file, between two groups of writes.
    pub wal_bytes: u64,
    /// SQLite: size of a page of a file that is created, in bytes. No setting of an operator: the file of the log has larger ones.
    #[serde(skip, default = "page_bytes")]
    pub page_bytes: u32,
    /// SQLite: overwrite deleted content with zeros (`docs/decisions/0017-retention-and-erasure.md`). No setting of an operator: the log switches it off,
    /// because it deletes only copied rows.
    #[serde(skip, default = "overwrites")]
    pub overwrites_deleted: bool,
}

/// Maximum number of cached prepared statements per connection.
pub(in crate::pool) const STATEMENTS_MAX: usize = 256;

fn page_bytes() -> u32 {
    4096
}

fn overwrites() -> bool {
    true
}

impl Default for DatabaseSettings {
    fn default() -> Self {
        Self {
            url: None,
            replica_url: None,
            replica_lag_max: Duration::from_secs(2),
            replica_deadline: Duration::from_secs(1),
            connections_max: 16,
            readers_max: 4,
            notify: true,
            acquire_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(3),
            silent_after: Duration::from_secs(1),
            busy_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(30),
            lock_timeout: Duration::from_secs(1),
            idle_in_transaction_timeout: Duration::from_secs(5),
            // Keys are random, so most writes touch pages that the log has already; the rarer it is copied, the fewer are written twice.
            wal_bytes: 32 * 1024 * 1024,
            page_bytes: page_bytes(),
            overwrites_deleted: overwrites(),
        }
    }
}

/// The URL may hold a password.
impl fmt::Debug for DatabaseSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, replica_url, connections_max, readers_max, acquire_timeout, busy_timeout, .. } = self;
        f.debug_struct("DatabaseSettings")
            .field("url", &url.as_ref().map(|_| "…"))
            .field("replica_url", &replica_url.as_ref().map(|_| "…"))
            .field("connections_max", connections_max)
            .field("readers_max", readers_max)
            .field("acquire_timeout", acquire_timeout)
            .field("busy_timeout", busy_timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_people_write_them_and_unknown_keys_are_errors() {
        let read = |text: &str| serde_json::from_str::<DatabaseSettings>(text);
        assert_eq!(read(r#"{"busy_timeout": "10s"}"#).unwrap().busy_timeout, Duration::from_secs(10));
        assert_eq!(read("{}").unwrap(), DatabaseSettings::default());
        assert!(read(r#"{"busy_time": "10s"}"#).unwrap_err().to_string().contains("busy_time"));
    }

    #[test]
    fn a_password_in_the_url_is_not_shown() {
        let url = Some("postgres://user:hunter2@localhost/attache".to_owned());
        let replica_url = url.clone();
        let shown = format!("{:?}", DatabaseSettings { url, replica_url, ..DatabaseSettings::default() });
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
