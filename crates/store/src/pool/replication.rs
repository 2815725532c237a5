//! PostgreSQL's status of standbys, durability, connections and transactions, for an operator.

use super::handle::Pool;
use super::query;
use crate::error::{Context, StoreError};

/// The state of a PostgreSQL server. Values that the role may not read are missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    /// `synchronous_standby_names`; empty if commits wait for no standby.
    pub synchronous_names: String,
    /// `fsync`
    pub fsync: String,
    /// `synchronous_commit`
    pub synchronous_commit: String,
    /// `full_page_writes`
    pub full_page_writes: String,
    /// Maximum number of connections for roles without privileges.
    pub connections_max: i64,
    /// Number of open connections.
    pub connections_open: i64,
    /// Age in seconds of the oldest open transaction of another session.
    pub transaction_seconds: Option<i64>,
    /// The connected standbys.
    pub standbys: Vec<Standby>,
    /// Number of servers that sessions are on.
    pub servers: usize,
}

/// A connected standby.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standby {
    /// Its `application_name`.
    pub name: String,
    /// `sync_state`: `async`, `potential`, `sync`, `quorum`; empty if the role may not see it.
    pub sync_state: String,
    /// Bytes of the write-ahead log that the standby has not received.
    pub bytes_behind: Option<i64>,
}

impl Pool {
    /// Reads the state of a PostgreSQL server; `None` for SQLite.
    pub async fn server_status(&self) -> Result<Option<ServerStatus>, StoreError> {
        const ASK: &str = "read the status of the database server";
        type Row = (String, String, String, String, i64, i64, Option<i64>);
        const STATUS: &str = "SELECT current_setting('synchronous_standby_names'),
            current_setting('fsync'), current_setting('synchronous_commit'), current_setting('full_page_writes'),
            CAST(current_setting('max_connections') AS BIGINT)
                - CAST(current_setting('superuser_reserved_connections') AS BIGINT),
            (SELECT COUNT(*) FROM pg_stat_activity WHERE datname IS NOT NULL),
            (SELECT CAST(MAX(EXTRACT(EPOCH FROM clock_timestamp() - xact_start)) AS BIGINT) FROM pg_stat_activity
                WHERE datname IS NOT NULL AND pid <> pg_backend_pid())";
        const STANDBYS: &str = "SELECT COALESCE(application_name, ''), COALESCE(sync_state, ''),
            CAST(pg_wal_lsn_diff(pg_current_wal_lsn(), flush_lsn) AS BIGINT)
            FROM pg_stat_replication ORDER BY application_name";
        let Self::Postgres(pool) = self else { return Ok(None) };
        let (synchronous_names, fsync, synchronous_commit, full_page_writes, max, open, transaction): Row =
            query(STATUS).fetch_one(self).await.context(ASK)?;
        let standbys: Vec<(String, String, Option<i64>)> = query(STANDBYS).fetch_all(self).await.context(ASK)?;
        let standby = |(name, sync_state, bytes_behind)| Standby { name, sync_state, bytes_behind };
        Ok(Some(ServerStatus {
            synchronous_names,
            fsync,
            synchronous_commit,
            full_page_writes,
            connections_max: max,
            connections_open: open,
            transaction_seconds: transaction,
            standbys: standbys.into_iter().map(standby).collect(),
            servers: pool.servers().await.context(ASK)?,
        }))
    }
}
