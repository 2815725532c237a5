-- A unique index of ids is a random page for each event whose id does not grow with the clock. The writer finds ids in sorted runs
-- instead, which it writes behind the log, and keeps those of the newest events in memory. Heads of chains and the index of activity
-- have left the transaction that signs: they are written in the same pass.

CREATE TABLE events_without_index (
    -- In the order of commits, without a gap.
    id INTEGER PRIMARY KEY,
    -- Unique: the writer looks for it before it adds an event.
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
    -- Null for a beginning.
    prev_event_id BLOB,
    -- A number, since the leaf commits to it.
    received_at_ms INTEGER NOT NULL,
    leaf_hash BLOB NOT NULL,
    -- RFC 8785 bytes without hash_chain.self. Everything of the event that has no column is in them.
    canonical BLOB NOT NULL
) STRICT;

INSERT INTO events_without_index SELECT * FROM events ORDER BY id;
DROP TABLE events;
ALTER TABLE events_without_index RENAME TO events;

-- How far the tables that are written behind the log reach.
CREATE TABLE indexed (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    -- The last event in activity and chain_heads.
    events INTEGER NOT NULL,
    -- The last event in the runs of ids. It is behind only until the writer has opened a log of an earlier version.
    ids INTEGER NOT NULL
) STRICT;

INSERT INTO indexed (id, events, ids) SELECT 1, COALESCE((SELECT size FROM tree WHERE id = 1), 0), 0;

-- Sorted runs of ids. Runs of one batch are disjoint; a batch of level n + 1 is the merge of batches of level n.
CREATE TABLE id_runs (
    run INTEGER PRIMARY KEY AUTOINCREMENT,
    batch INTEGER NOT NULL,
    level INTEGER NOT NULL,
    -- building: not all of its entries are written; whole; spent: merged into another batch, to be deleted.
    state TEXT NOT NULL CHECK (state IN ('building', 'whole', 'spent')),
    entries INTEGER NOT NULL,
    first_id BLOB NOT NULL,
    last_id BLOB NOT NULL
) STRICT;

CREATE INDEX id_runs_by_range ON id_runs (state, first_id, last_id);

-- A Bloom filter for each run: bits as little-endian words, the key of their hash, bits per entry.
CREATE TABLE id_filters (
    run INTEGER PRIMARY KEY,
    seed BLOB NOT NULL,
    hashes INTEGER NOT NULL,
    bits BLOB NOT NULL
) STRICT;

-- Entries of 24 bytes, sorted: the id of an event, and its number, big-endian.
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
