//! Settings of the log.

/// Limits of the writer of an SQLite file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterSettings {
    /// Maximum number of events of one transaction.
    pub group_max: usize,
    /// Maximum number of chain heads in memory. Heads of chains with unindexed events are kept in any case.
    pub chains_max: usize,
    /// Size of the write-ahead log in bytes at which it is overwritten from its start; it is copied into the file in parts.
    pub wal_bytes: u64,
    /// Number of unindexed events at which the indexes are written even while the log is busy.
    pub index_every: usize,
    /// Maximum memory in bytes of the Bloom filters of the index of ids.
    pub id_filters_bytes: u64,
}

impl Default for WriterSettings {
    fn default() -> Self {
        Self {
            group_max: 256,
            chains_max: 100_000,
            wal_bytes: 64 * 1024 * 1024,
            index_every: 32_768,
            id_filters_bytes: 64 * 1024 * 1024,
        }
    }
}
