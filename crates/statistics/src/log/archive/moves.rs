//! The changes of the database that follow the archive.

/// A change, guarded by the progress that it continues.
#[derive(Debug, Clone)]
pub enum ArchiveMove {
    /// The bundles `from..until` are in the last folder.
    Put { from: u64, until: u64 },
    /// They are in a new folder.
    Begin { from: u64, until: u64, folder: String },
    /// The bodies of a bundle leave the database.
    Remove { bundle: u64 },
}

// The writer of an SQLite file binds parameters by their first occurrence, so they ascend.

/// Advances `put`. Parameters: until, from.
pub const PUT: &str = "UPDATE archive SET put = $1 WHERE put = $2 AND first = (SELECT MAX(first) FROM archive)";
/// Adds a folder. Parameters: from, folder, until.
pub const BEGIN: &str = "INSERT INTO archive (first, folder, put, removed)
    SELECT $1, $2, $3, $1 WHERE NOT EXISTS (SELECT 1 FROM archive WHERE put > $1) ON CONFLICT (first) DO NOTHING";
/// Advances `removed` from `$1`.
pub const REMOVED: &str = "UPDATE archive SET removed = $1 + 1 WHERE removed = $1 AND put > $1";
/// Empties the bodies of bundle `$1` on PostgreSQL.
pub const EMPTY: &str = "UPDATE events SET canonical = '' FROM leaves l, sources s
    WHERE l.leaf_index >= $1 * 256 AND l.leaf_index < ($1 + 1) * 256 AND events.id = l.event
        AND s.id = events.source_id AND s.agent_id <> 'svc-control-plane'";
/// The same on SQLite, where an update frees no page: rows are deleted, which frees their pages, and inserted without their bodies. Each
/// statement has the parameter `$1`.
pub const EMPTY_ON_SQLITE: [&str; 3] = [
    "INSERT INTO temp.emptied SELECT * FROM main.events WHERE id > $1 * 256 AND id <= ($1 + 1) * 256
        AND (SELECT s.agent_id FROM sources s WHERE s.id = source_id) <> 'svc-control-plane'",
    "DELETE FROM main.events WHERE id IN (SELECT id FROM temp.emptied WHERE id > $1 * 256)",
    "INSERT INTO main.events SELECT * FROM temp.emptied WHERE id > $1 * 256 ORDER BY id",
];
/// The rows of one bundle, on SQLite.
pub const EMPTIED: &str = "CREATE TEMP TABLE IF NOT EXISTS emptied AS SELECT * FROM main.events WHERE FALSE;
    DELETE FROM temp.emptied";
