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
/// The rows of bundle `$1` on SQLite, where an update frees no page: [`REPLACE`] deletes the rows, which frees their pages, and inserts them
/// without their bodies. [`CLEAR`] comes first.
pub const COPY: &str = "INSERT INTO temp.emptied SELECT * FROM main.events WHERE id > $1 * 256 AND id <= ($1 + 1) * 256
    AND (SELECT s.agent_id FROM sources s WHERE s.id = source_id) <> 'svc-control-plane'";
/// Makes the table of rows, empty.
pub const CLEAR: &str = "CREATE TEMP TABLE IF NOT EXISTS emptied AS SELECT * FROM main.events WHERE FALSE;
    DELETE FROM temp.emptied";
/// Replaces the copied rows.
pub const REPLACE: &str = "UPDATE temp.emptied SET canonical = x'';
    DELETE FROM main.events WHERE id IN (SELECT id FROM temp.emptied);
    INSERT INTO main.events SELECT * FROM temp.emptied ORDER BY id";
