-- The servers on this database. Each writes its row about every five seconds and deletes it when it stops; a row that is not written any more
-- belongs to a process that ended without stopping.
CREATE TABLE nodes (
    id UUID PRIMARY KEY,
    -- Name of its host.
    name TEXT NOT NULL,
    -- Bound addresses of the public and of the operator's listener.
    address TEXT NOT NULL,
    operator_address TEXT NOT NULL,
    version TEXT NOT NULL,
    -- SHA-256 of the settings that all nodes have in common.
    configuration BYTEA NOT NULL,
    started_at TIMESTAMPTZ NOT NULL,
    -- By the clock of the database.
    last_beat_at TIMESTAMPTZ NOT NULL,
    -- How far its machine's clock is ahead of the database's.
    clock_ahead_ms BIGINT NOT NULL,
    -- Why it is not ready; null while it is.
    unready TEXT,
    is_draining BOOLEAN NOT NULL,
    -- Whether it has the lease of the log's sequencer.
    has_sequencer BOOLEAN NOT NULL,
    -- Running batches whose lease it has.
    batches BIGINT NOT NULL
);
