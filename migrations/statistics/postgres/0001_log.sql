-- The embedded statistics service: an append-only log of events, and a Merkle tree over it.

-- Where events come from. Few, never changed, and known by heart to every process that writes.
CREATE TABLE sources (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    machine_id UUID NOT NULL,
    agent_id TEXT NOT NULL,
    user_cuid TEXT NOT NULL,
    lane TEXT NOT NULL,
    UNIQUE (machine_id, agent_id, user_cuid, lane)
);

CREATE INDEX sources_by_identity ON sources (user_cuid);

-- One row per event, never changed.
CREATE TABLE events (
    -- Commits may overtake each other, and leave gaps when they fail: see `unsequenced`.
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id UUID NOT NULL UNIQUE,
    receipt_id UUID NOT NULL,
    source_id BIGINT NOT NULL,
    event_type TEXT NOT NULL,
    ts_edge_ms BIGINT NOT NULL,
    consent_level TEXT NOT NULL,
    redacted BOOLEAN NOT NULL,
    chain_epoch BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    self BYTEA NOT NULL,
    -- Null for a beginning.
    prev_event_id UUID,
    -- A number, since the leaf commits to it.
    received_at_ms BIGINT NOT NULL,
    leaf_hash BYTEA NOT NULL,
    -- RFC 8785 bytes without hash_chain.self. Everything of the event that has no column stands in them.
    canonical BYTEA NOT NULL
);

-- The only index that does not grow at its end: pages of activity.
CREATE INDEX events_by_source ON events (source_id, received_at_ms, id);

-- The last event of each chain key.
CREATE TABLE chain_heads (
    machine_id UUID NOT NULL,
    agent_id TEXT NOT NULL,
    chain_epoch BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    self BYTEA NOT NULL,
    event_id UUID NOT NULL,
    -- How often the row was written; who moves a head names the count that it saw.
    moves BIGINT NOT NULL,
    PRIMARY KEY (machine_id, agent_id)
);

-- Events that have no place in the tree yet. SQLite has no need of this table: there, whatever comes after the last leaf.
CREATE TABLE unsequenced (
    event BIGINT PRIMARY KEY,
    leaf_hash BYTEA NOT NULL
);

-- The place of an event in the tree; no row while it is pending.
CREATE TABLE leaves (
    event BIGINT PRIMARY KEY,
    leaf_index BIGINT NOT NULL
);

-- Hashes of the tree, 256 to a tile (C2SP tlog-tiles).
CREATE TABLE tiles (
    level BIGINT NOT NULL,
    place BIGINT NOT NULL,
    hashes BYTEA NOT NULL,
    PRIMARY KEY (level, place)
);

-- What the log has signed last.
CREATE TABLE tree (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    size BIGINT NOT NULL,
    root BYTEA NOT NULL,
    checkpoint TEXT NOT NULL,
    vkey TEXT NOT NULL,
    signed_at TIMESTAMPTZ NOT NULL
);

-- Who may give events their place in the tree, and until when by the clock of the database.
CREATE TABLE sequencer (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    holder UUID,
    -- Counts the holders.
    fence BIGINT NOT NULL,
    held_until_ms BIGINT NOT NULL
);

INSERT INTO sequencer (id, fence, held_until_ms) VALUES (1, 0, 0);

-- Keys that sign, or once signed, checkpoints.
CREATE TABLE log_keys (
    vkey TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    -- Ed25519.
    seed BYTEA NOT NULL,
    active_from TIMESTAMPTZ NOT NULL,
    retired_at TIMESTAMPTZ
);

-- One key signs.
CREATE UNIQUE INDEX log_keys_active ON log_keys ((retired_at IS NULL)) WHERE retired_at IS NULL;
