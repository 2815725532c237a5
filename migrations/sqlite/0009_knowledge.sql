-- Spaces of the knowledge API, what new content has to be, and batches on their way in.

CREATE TABLE spaces (
    id BLOB NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    name TEXT NOT NULL,
    is_public INTEGER NOT NULL,
    -- Where an account adds to when it names no space.
    is_default INTEGER NOT NULL,
    created_at TEXT NOT NULL
) STRICT;

CREATE INDEX spaces_by_account ON spaces (account_id, created_at);
CREATE UNIQUE INDEX spaces_default ON spaces (account_id) WHERE is_default = 1;

-- Who may do what in a space; its owner has a row too.
CREATE TABLE space_members (
    space_id BLOB NOT NULL REFERENCES spaces (id) ON DELETE CASCADE,
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    access TEXT NOT NULL CHECK (access IN ('owner', 'edit', 'read')),
    is_favorite INTEGER NOT NULL,
    PRIMARY KEY (space_id, account_id)
) STRICT;

CREATE INDEX space_members_by_account ON space_members (account_id);

-- A JSON object per account.
CREATE TABLE knowledge_settings (
    account_id TEXT NOT NULL PRIMARY KEY REFERENCES accounts (user_account_id),
    settings TEXT NOT NULL,
    updated_at TEXT NOT NULL
) STRICT;

-- What a filter left out, and why.
CREATE TABLE verdicts (
    id BLOB NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    batch_id BLOB NOT NULL,
    -- What it was about: an address, or the title of a note.
    subject TEXT NOT NULL,
    -- A JSON object.
    verdict TEXT NOT NULL,
    created_at TEXT NOT NULL
) STRICT;

CREATE INDEX verdicts_by_account ON verdicts (account_id, created_at);
CREATE INDEX verdicts_by_time ON verdicts (created_at);

CREATE TABLE batches (
    id BLOB NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    -- A JSON array of ids.
    spaces TEXT NOT NULL,
    total INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'complete', 'failed')),
    -- Why it failed.
    reason TEXT,
    cancelled_at TEXT,
    created_at TEXT NOT NULL,
    finished_at TEXT,
    -- Which process works on it, and until when the others leave it alone.
    runner TEXT,
    leased_until TEXT
) STRICT;

CREATE INDEX batches_by_account ON batches (account_id, created_at);
CREATE INDEX batches_running ON batches (account_id) WHERE state = 'running';
CREATE INDEX batches_by_time ON batches (created_at);

CREATE TABLE batch_items (
    batch_id BLOB NOT NULL REFERENCES batches (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    -- An address, or a note: a JSON object, until there is an outcome.
    url TEXT,
    note TEXT,
    -- The how-many-th item of the batch that was finished, from 1: with it, the whole stream can be told again.
    finished INTEGER,
    -- A JSON object.
    outcome TEXT,
    PRIMARY KEY (batch_id, position),
    CHECK ((finished IS NULL) = (outcome IS NULL))
) STRICT;

CREATE UNIQUE INDEX batch_items_finished ON batch_items (batch_id, finished);
