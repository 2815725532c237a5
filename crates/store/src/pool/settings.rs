//! Settings of the connections to a database.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// `[database]`: the database, and limits of its connections. Times are written as "10s", "5m".
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct DatabaseSettings {
    pub url: Option<String>,
    pub replica_url: Option<String>,
    #[serde(with = "humantime_serde")]
    pub replica_lag_max: Duration,
    #[serde(with = "humantime_serde")]
    pub replica_deadline: Duration,
    pub connections_max: u32,
    pub notify: bool,
    #[serde(with = "humantime_serde")]
    pub acquire_timeout: Duration,
    #[serde(with = "humantime_serde")]
    pub connect_timeout: Duration,
    #[serde(with = "humantime_serde")]
    pub silent_after: Duration,
    #[serde(with = "humantime_serde")]
    pub busy_timeout: Duration,
    #[serde(with = "humantime_serde")]
    pub statement_timeout: Duration,
    #[serde(with = "humantime_serde")]
    pub lock_timeout: Duration,
    #[serde(with = "humantime_serde")]
    pub idle_in_transaction_timeout: Duration,
    pub wal_bytes: u64,
    pub copy_before_migration: bool,
    /// Not configurable: an option of `attache serve`.
    #[serde(skip)]
    pub old_tables: OldTables,
    /// SQLite: page size of new files in bytes. Not configurable: the file of the log has larger pages.
    #[serde(skip)]
    pub page_bytes: u32,
    /// SQLite: overwrite deleted content with zeros (`docs/decisions/0017-retention-and-erasure.md`). Not configurable: the log disables
    /// it, because it deletes only copied rows.
    #[serde(skip)]
    pub overwrites_deleted: bool,
}

/// The treatment of a database that lacks migrations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OldTables {
    /// They are applied.
    #[default]
    Migrate,
    /// The database is not opened.
    Refuse,
}

/// Maximum number of cached prepared statements per connection.
pub(in crate::pool) const STATEMENTS_MAX: usize = 256;

impl Default for DatabaseSettings {
    fn default() -> Self {
        Self {
            url: None,
            replica_url: None,
            replica_lag_max: Duration::from_secs(2),
            replica_deadline: Duration::from_secs(1),
            connections_max: 16,
            notify: true,
            acquire_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(3),
            silent_after: Duration::from_secs(1),
            busy_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(30),
            lock_timeout: Duration::from_secs(1),
            idle_in_transaction_timeout: Duration::from_secs(5),
            // Keys are random, so most writes touch pages that the log already contains; rarer copies write fewer pages twice.
            wal_bytes: 32 * 1024 * 1024,
            copy_before_migration: true,
            old_tables: OldTables::Migrate,
            page_bytes: 4096,
            overwrites_deleted: true,
        }
    }
}

/// Hides the URL, which may contain a password.
impl fmt::Debug for DatabaseSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, replica_url, connections_max, acquire_timeout, busy_timeout, .. } = self;
        f.debug_struct("DatabaseSettings")
            .field("url", &url.as_ref().map(|_| "…"))
            .field("replica_url", &replica_url.as_ref().map(|_| "…"))
            .field("connections_max", connections_max)
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
        let text = format!("{:?}", DatabaseSettings { url, replica_url, ..DatabaseSettings::default() });
        assert!(!text.contains("hunter2"), "{text}");
    }
}
