-- The embedded statistics service: an append-only log of events, and a Merkle tree over it. One thread writes it. The
-- transaction that accepts an event writes only its row in `events`; derived tables are written later, in passes. In
-- `migrations/statistics/postgres` several nodes append, so its tables differ.

-- The installation that the log belongs to; no row until the first start has assigned it.
CREATE TABLE installation (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    installation_id BLOB NOT NULL
) STRICT;

-- EVENTS

-- Few rows, never changed, so the writer caches their numbers.
CREATE TABLE sources (
    id INTEGER PRIMARY KEY,
    machine_id BLOB NOT NULL,
    agent_id TEXT NOT NULL,
    user_cuid TEXT NOT NULL,
    lane TEXT NOT NULL,
    UNIQUE (machine_id, agent_id, user_cuid, lane)
) STRICT;

CREATE INDEX sources_by_identity ON sources (user_cuid);

-- Rows are never changed.
CREATE TABLE events (
    -- In commit order, without gaps. The place of event n in the tree is n - 1, so places need no table.
    id INTEGER PRIMARY KEY,
    -- The writer checks that it is unique. A unique index would write a random page for each id that does not grow with the
    -- clock: see `id_runs`.
    event_id BLOB NOT NULL,
    receipt_id BLOB NOT NULL,
    source_id INTEGER NOT NULL,
    event_type TEXT NOT NULL,
    ts_edge_ms INTEGER NOT NULL,
    consent_level TEXT NOT NULL,
    redacted INTEGER NOT NULL,
    chain_epoch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    self BLOB NOT NULL,
    -- Null for the first event of a chain epoch.
    prev_event_id BLOB,
    -- Milliseconds since 1970 instead of a timestamp, because the leaf contains the number.
    received_at_ms INTEGER NOT NULL,
    leaf_hash BLOB NOT NULL,
    -- RFC 8785 bytes without hash_chain.self; contains all members of the event, including members without a column.
    canonical BLOB NOT NULL
) STRICT;

-- INDEXES OF EVENTS, written after the log

-- Number of the last event in `activity`, `chain_heads` and the runs of ids, which one pass writes.
CREATE TABLE indexed (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    events INTEGER NOT NULL
) STRICT;

INSERT INTO indexed (id, events) VALUES (1, 0);

-- Pages of activity: the events of a source by time of receipt.
CREATE TABLE activity (
    source_id INTEGER NOT NULL,
    received_at_ms INTEGER NOT NULL,
    id INTEGER NOT NULL,
    PRIMARY KEY (source_id, received_at_ms, id)
) STRICT, WITHOUT ROWID;

-- The newest event of each chain key.
CREATE TABLE chain_heads (
    machine_id BLOB NOT NULL,
    agent_id TEXT NOT NULL,
    chain_epoch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    self BLOB NOT NULL,
    event_id BLOB NOT NULL,
    -- Number of updates of the row. A transaction that moves a head compares it with the number that it read.
    moves INTEGER NOT NULL,
    PRIMARY KEY (machine_id, agent_id)
) STRICT, WITHOUT ROWID;

-- Sorted runs of ids. Runs of one batch are disjoint; a batch of level n + 1 is the merge of batches of level n.
CREATE TABLE id_runs (
    run INTEGER PRIMARY KEY AUTOINCREMENT,
    batch INTEGER NOT NULL,
    level INTEGER NOT NULL,
    -- building: entries are missing; whole: searched; spent: merged into another batch, to be deleted.
    state TEXT NOT NULL CHECK (state IN ('building', 'whole', 'spent')),
    entries INTEGER NOT NULL,
    first_id BLOB NOT NULL,
    last_id BLOB NOT NULL
) STRICT;

CREATE INDEX id_runs_by_range ON id_runs (state, first_id, last_id);

-- A Bloom filter for each run: `bits` as little-endian words, `seed` of the hash function, `hashes` as the number of bits per
-- entry.
CREATE TABLE id_filters (
    run INTEGER PRIMARY KEY,
    seed BLOB NOT NULL,
    hashes INTEGER NOT NULL,
    bits BLOB NOT NULL
) STRICT;

-- Sorted entries of 24 bytes: the id of an event, and its number, big-endian.
CREATE TABLE id_chunks (
    chunk INTEGER PRIMARY KEY,
    entries BLOB NOT NULL
) STRICT;

-- The first id of each chunk of a run.
CREATE TABLE id_fences (
    run INTEGER NOT NULL,
    first_id BLOB NOT NULL,
    chunk INTEGER NOT NULL,
    PRIMARY KEY (run, first_id)
) STRICT, WITHOUT ROWID;

-- SESSIONS OF AGENTS, written after the log

-- Number of events, in the order of the log, that the following tables include.
CREATE TABLE session_progress (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    events INTEGER NOT NULL
) STRICT;

INSERT INTO session_progress (id, events) VALUES (1, 0);

-- Sums over the events of a session.
CREATE TABLE agent_sessions (
    number INTEGER PRIMARY KEY,
    -- First 16 bytes of the SHA-256 of computer, identity, agent kind and session id.
    id BLOB NOT NULL UNIQUE,
    machine_id BLOB NOT NULL,
    user_cuid TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    session_uuid BLOB NOT NULL,
    project_id TEXT,
    -- Name of the working folder, from an event of the level `full`.
    folder TEXT,
    -- Times of the sender's clock.
    first_ms INTEGER NOT NULL,
    last_ms INTEGER NOT NULL,
    -- Time of the newest event that ended the session.
    ended_ms INTEGER,
    -- Time of receipt of the newest event, which orders lists.
    received_at_ms INTEGER NOT NULL,
    -- Time before prompts and after requests for a permission.
    waiting_ms INTEGER NOT NULL,
    -- Whether the newest event requests a permission.
    is_request INTEGER NOT NULL,
    events INTEGER NOT NULL,
    tool_calls INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    blocked INTEGER NOT NULL,
    prompts INTEGER NOT NULL,
    model_calls INTEGER NOT NULL,
    subagents INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    tool_ms INTEGER NOT NULL
) STRICT;

-- Pages of sessions, with the columns that they are filtered by.
CREATE INDEX agent_sessions_by_recorder
    ON agent_sessions (machine_id, user_cuid, received_at_ms, number, agent_id, project_id);

-- The events of a session, by their numbers.
CREATE TABLE session_events (
    session INTEGER NOT NULL,
    event INTEGER NOT NULL,
    PRIMARY KEY (session, event)
) STRICT, WITHOUT ROWID;

-- Digests of the files that a session names.
CREATE TABLE session_files (
    session INTEGER NOT NULL,
    file INTEGER NOT NULL,
    PRIMARY KEY (session, file)
) STRICT, WITHOUT ROWID;

-- The models of a session, by name; empty if the event does not name it.
CREATE TABLE session_models (
    session INTEGER NOT NULL,
    model TEXT NOT NULL,
    calls INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    PRIMARY KEY (session, model)
) STRICT, WITHOUT ROWID;

-- Use of models by UTC day of receipt, also outside of sessions. An event without a project has an empty one.
CREATE TABLE model_days (
    machine_id BLOB NOT NULL,
    user_cuid TEXT NOT NULL,
    day INTEGER NOT NULL,
    agent_id TEXT NOT NULL,
    project_id TEXT NOT NULL,
    model TEXT NOT NULL,
    calls INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    PRIMARY KEY (machine_id, user_cuid, day, agent_id, project_id, model)
) STRICT, WITHOUT ROWID;

-- THE TREE

-- Hashes of the tree, 256 in a tile (C2SP tlog-tiles).
CREATE TABLE tiles (
    level INTEGER NOT NULL,
    place INTEGER NOT NULL,
    hashes BLOB NOT NULL,
    PRIMARY KEY (level, place)
) STRICT;

-- The newest signed checkpoint.
CREATE TABLE tree (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    size INTEGER NOT NULL,
    root BLOB NOT NULL,
    checkpoint TEXT NOT NULL,
    vkey TEXT NOT NULL,
    signed_at TEXT NOT NULL
) STRICT;

-- On SQLite only `halted` is used; on PostgreSQL the row is also the lease of the process that assigns places to events.
CREATE TABLE sequencer (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    holder BLOB,
    fence INTEGER NOT NULL,
    held_until_ms INTEGER NOT NULL,
    -- Why the log is neither signed nor extended, as JSON with the checkpoint that it does not continue. Written by the process
    -- that detected it, read by all other processes, cleared by a new epoch.
    halted TEXT
) STRICT;

INSERT INTO sequencer (id, fence, held_until_ms) VALUES (1, 0, 0);

-- Current and retired signing keys of checkpoints.
CREATE TABLE log_keys (
    vkey TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    -- Ed25519.
    seed BLOB NOT NULL,
    active_from TEXT NOT NULL,
    retired_at TEXT
) STRICT;

-- At most one key is active.
CREATE UNIQUE INDEX log_keys_active ON log_keys ((retired_at IS NULL)) WHERE retired_at IS NULL;

-- The newest checkpoint that each witness has cosigned, with the cosignature lines of its note.
CREATE TABLE cosignatures (
    -- Verifier key of the witness.
    witness TEXT NOT NULL PRIMARY KEY,
    -- Key of the log and size of the tree.
    log_vkey TEXT NOT NULL,
    size INTEGER NOT NULL,
    lines TEXT NOT NULL,
    cosigned_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
