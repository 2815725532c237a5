-- The embedded statistics service: an append-only log of events, and a Merkle tree over it.

-- Where events come from. Few, never changed, and known by heart to every process that writes.
CREATE TABLE sources (
    id INTEGER PRIMARY KEY,
    machine_id BLOB NOT NULL,
    agent_id TEXT NOT NULL,
    user_cuid TEXT NOT NULL,
    lane TEXT NOT NULL,
    UNIQUE (machine_id, agent_id, user_cuid, lane)
) STRICT;

CREATE INDEX sources_by_identity ON sources (user_cuid);

-- One row per event, never changed.
CREATE TABLE events (
    -- In the order of commits, without a gap.
    id INTEGER PRIMARY KEY,
    event_id BLOB NOT NULL UNIQUE,
    receipt_id BLOB NOT NULL,
    source_id INTEGER NOT NULL,
    event_type TEXT NOT NULL,
    ts_edge_ms INTEGER NOT NULL,
    consent_level TEXT NOT NULL,
    redacted INTEGER NOT NULL,
    chain_epoch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    self BLOB NOT NULL,
    -- Null for a beginning.
    prev_event_id BLOB,
    -- A number, since the leaf commits to it.
    received_at_ms INTEGER NOT NULL,
    leaf_hash BLOB NOT NULL,
    -- RFC 8785 bytes without hash_chain.self. Everything of the event that has no column stands in them.
    canonical BLOB NOT NULL
) STRICT;

-- The only index that does not grow at its end: pages of activity.
CREATE INDEX events_by_source ON events (source_id, received_at_ms, id);

-- The last event of each chain key.
CREATE TABLE chain_heads (
    machine_id BLOB NOT NULL,
    agent_id TEXT NOT NULL,
    chain_epoch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    self BLOB NOT NULL,
    event_id BLOB NOT NULL,
    -- How often the row was written; who moves a head names the count that it saw.
    moves INTEGER NOT NULL,
    PRIMARY KEY (machine_id, agent_id)
) STRICT, WITHOUT ROWID;

-- The place of an event in the tree; no row while it is pending.
CREATE TABLE leaves (
    event INTEGER PRIMARY KEY,
    leaf_index INTEGER NOT NULL
) STRICT;

-- Hashes of the tree, 256 to a tile (C2SP tlog-tiles).
CREATE TABLE tiles (
    level INTEGER NOT NULL,
    place INTEGER NOT NULL,
    hashes BLOB NOT NULL,
    PRIMARY KEY (level, place)
) STRICT;

-- What the log has signed last.
CREATE TABLE tree (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    size INTEGER NOT NULL,
    root BLOB NOT NULL,
    checkpoint TEXT NOT NULL,
    vkey TEXT NOT NULL,
    signed_at TEXT NOT NULL
) STRICT;

-- Who may give events their place in the tree, and until when by the clock of the database.
CREATE TABLE sequencer (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    holder BLOB,
    -- Counts the holders.
    fence INTEGER NOT NULL,
    held_until_ms INTEGER NOT NULL
) STRICT;

INSERT INTO sequencer (id, fence, held_until_ms) VALUES (1, 0, 0);

-- Keys that sign, or once signed, checkpoints.
CREATE TABLE log_keys (
    vkey TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    -- Ed25519.
    seed BLOB NOT NULL,
    active_from TEXT NOT NULL,
    retired_at TEXT
) STRICT;

-- One key signs.
CREATE UNIQUE INDEX log_keys_active ON log_keys ((retired_at IS NULL)) WHERE retired_at IS NULL;
