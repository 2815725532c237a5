-- The servers on this database. Each writes its row about every five seconds and deletes it when it stops; a row that is not written any more
-- belongs to a process that ended without stopping.
CREATE TABLE nodes (
    id BLOB NOT NULL PRIMARY KEY,
    -- Name of its host.
    name TEXT NOT NULL,
    -- Bound addresses of the public and of the operator's listener.
    address TEXT NOT NULL,
    operator_address TEXT NOT NULL,
    version TEXT NOT NULL,
    -- SHA-256 of the settings that all nodes have in common.
    configuration BLOB NOT NULL,
    started_at TEXT NOT NULL,
    last_beat_at TEXT NOT NULL,
    -- How far its machine's clock is ahead of the database's.
    clock_ahead_ms INTEGER NOT NULL,
    -- Why it is not ready; null while it is.
    unready TEXT,
    is_draining INTEGER NOT NULL,
    -- Whether it has the lease of the log's sequencer.
    has_sequencer INTEGER NOT NULL,
    -- Running batches whose lease it has.
    batches INTEGER NOT NULL
) STRICT;
