-- The embedded statistics service: an append-only log of events, and a Merkle tree over it. Several nodes append to this log,
-- and the database serialises them. In `migrations/statistics/sqlite` one thread writes the log, so its tables differ.

-- The installation that the log belongs to; no row until the first start has assigned it.
CREATE TABLE installation (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    installation_id UUID NOT NULL
);

-- EVENTS

-- Few rows, never changed, so each writing process caches their numbers.
CREATE TABLE sources (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    machine_id UUID NOT NULL,
    agent_id TEXT NOT NULL,
    user_cuid TEXT NOT NULL,
    lane TEXT NOT NULL,
    UNIQUE (machine_id, agent_id, user_cuid, lane)
);

CREATE INDEX sources_by_identity ON sources (user_cuid);

-- Rows are never changed.
CREATE TABLE events (
    -- Commits may overtake each other, and failed transactions leave gaps. CACHE 1, because ids ascend within each chain only
    -- if no session takes several at once.
    id BIGINT GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY,
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
    -- Null for the first event of a chain epoch.
    prev_event_id UUID,
    -- Milliseconds since 1970 instead of a timestamp, because the leaf contains the number.
    received_at_ms BIGINT NOT NULL,
    leaf_hash BYTEA NOT NULL,
    -- RFC 8785 bytes without hash_chain.self; contains all members of the event, including members without a column.
    canonical BYTEA NOT NULL
);

-- Pages of activity. Besides the index of event ids, the only index with random inserts.
CREATE INDEX events_by_source ON events (source_id, received_at_ms, id);

-- The newest event of each chain key.
CREATE TABLE chain_heads (
    machine_id UUID NOT NULL,
    agent_id TEXT NOT NULL,
    chain_epoch BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    self BYTEA NOT NULL,
    event_id UUID NOT NULL,
    -- Number of updates of the row. A transaction that moves a head compares it with the number that it read.
    moves BIGINT NOT NULL,
    PRIMARY KEY (machine_id, agent_id)
);

-- SESSIONS OF AGENTS, written after the log

-- Number of events, in the order of the log, that the following tables include.
CREATE TABLE session_progress (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    events BIGINT NOT NULL
);

INSERT INTO session_progress (id, events) VALUES (1, 0);

-- Sums over the events of a session.
CREATE TABLE agent_sessions (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- First 16 bytes of the SHA-256 of computer, identity, agent kind and session id.
    id UUID NOT NULL UNIQUE,
    machine_id UUID NOT NULL,
    user_cuid TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    session_uuid UUID NOT NULL,
    project_id TEXT,
    -- Name of the working folder, from an event of the level `full`.
    folder TEXT,
    -- Times of the sender's clock.
    first_ms BIGINT NOT NULL,
    last_ms BIGINT NOT NULL,
    -- Time of the newest event that ended the session.
    ended_ms BIGINT,
    -- Time of receipt of the newest event, which orders lists.
    received_at_ms BIGINT NOT NULL,
    -- Time before prompts and after requests for a permission.
    waiting_ms BIGINT NOT NULL,
    -- Whether the newest event requests a permission.
    is_request BOOLEAN NOT NULL,
    events BIGINT NOT NULL,
    tool_calls BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    blocked BIGINT NOT NULL,
    prompts BIGINT NOT NULL,
    model_calls BIGINT NOT NULL,
    subagents BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    tool_ms BIGINT NOT NULL
);

-- Pages of sessions, with the columns that they are filtered by.
CREATE INDEX agent_sessions_by_recorder
    ON agent_sessions (machine_id, user_cuid, received_at_ms, number, agent_id, project_id);

-- The events of a session, by their numbers.
CREATE TABLE session_events (
    session BIGINT NOT NULL,
    event BIGINT NOT NULL,
    PRIMARY KEY (session, event)
);

-- Digests of the files that a session names.
CREATE TABLE session_files (
    session BIGINT NOT NULL,
    file BIGINT NOT NULL,
    PRIMARY KEY (session, file)
);

-- The models of a session, by name; empty if the event does not name it.
CREATE TABLE session_models (
    session BIGINT NOT NULL,
    model TEXT NOT NULL,
    calls BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    PRIMARY KEY (session, model)
);

-- Use of models by UTC day of receipt, also outside of sessions. An event without a project has an empty one.
CREATE TABLE model_days (
    machine_id UUID NOT NULL,
    user_cuid TEXT NOT NULL,
    day BIGINT NOT NULL,
    agent_id TEXT NOT NULL,
    project_id TEXT NOT NULL,
    model TEXT NOT NULL,
    calls BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    PRIMARY KEY (machine_id, user_cuid, day, agent_id, project_id, model)
);

-- THE TREE

-- Events without a place in the tree.
CREATE TABLE unsequenced (
    event BIGINT PRIMARY KEY,
    leaf_hash BYTEA NOT NULL,
    -- Id of its predecessor in the chain; null for the first event. An event gets a place after its predecessor, independent of
    -- both ids.
    follows BIGINT
);

-- The place of an event in the tree; no row while it is pending.
CREATE TABLE leaves (
    event BIGINT PRIMARY KEY,
    leaf_index BIGINT NOT NULL
);

-- Reads the tree in order, and prevents two events with the same place.
CREATE UNIQUE INDEX leaves_by_place ON leaves (leaf_index);

-- Hashes of the tree, 256 in a tile (C2SP tlog-tiles).
CREATE TABLE tiles (
    level BIGINT NOT NULL,
    place BIGINT NOT NULL,
    hashes BYTEA NOT NULL,
    PRIMARY KEY (level, place)
);

-- The newest signed checkpoint.
CREATE TABLE tree (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    size BIGINT NOT NULL,
    root BYTEA NOT NULL,
    checkpoint TEXT NOT NULL,
    vkey TEXT NOT NULL,
    signed_at TIMESTAMPTZ NOT NULL
);

-- The lease of the process that assigns places to events.
CREATE TABLE sequencer (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    holder UUID,
    -- Incremented by each new holder, halt and epoch.
    fence BIGINT NOT NULL,
    -- By the clock of the database.
    held_until_ms BIGINT NOT NULL,
    -- Why the log is neither signed nor extended, as JSON with the checkpoint that it does not continue. Written by the process
    -- that detected it, read by all other processes, cleared by a new epoch.
    halted TEXT
);

INSERT INTO sequencer (id, fence, held_until_ms) VALUES (1, 0, 0);

-- Current and retired signing keys of checkpoints.
CREATE TABLE log_keys (
    vkey TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    -- Ed25519.
    seed BYTEA NOT NULL,
    active_from TIMESTAMPTZ NOT NULL,
    retired_at TIMESTAMPTZ
);

-- At most one key is active.
CREATE UNIQUE INDEX log_keys_active ON log_keys ((retired_at IS NULL)) WHERE retired_at IS NULL;

-- The newest checkpoint that each witness has cosigned, with the cosignature lines of its note.
CREATE TABLE cosignatures (
    -- Verifier key of the witness.
    witness TEXT PRIMARY KEY,
    -- Key of the log and size of the tree.
    log_vkey TEXT NOT NULL,
    size BIGINT NOT NULL,
    lines TEXT NOT NULL,
    cosigned_at TIMESTAMPTZ NOT NULL
);
