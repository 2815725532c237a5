-- Spaces of the knowledge API, what new content has to be, and batches on their way in.

CREATE TABLE spaces (
    id UUID NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    name TEXT NOT NULL,
    is_public BOOLEAN NOT NULL,
    -- Where an account adds to when it names no space.
    is_default BOOLEAN NOT NULL,
    created_at TIMESTAMPTZ NOT NULL
);

CREATE INDEX spaces_by_account ON spaces (account_id, created_at);
CREATE UNIQUE INDEX spaces_default ON spaces (account_id) WHERE is_default;

-- Who may do what in a space; its owner has a row too.
CREATE TABLE space_members (
    space_id UUID NOT NULL REFERENCES spaces (id) ON DELETE CASCADE,
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    access TEXT NOT NULL CHECK (access IN ('owner', 'edit', 'read')),
    is_favorite BOOLEAN NOT NULL,
    PRIMARY KEY (space_id, account_id)
);

CREATE INDEX space_members_by_account ON space_members (account_id);

-- A JSON object per account.
CREATE TABLE knowledge_settings (
    account_id TEXT NOT NULL PRIMARY KEY REFERENCES accounts (user_account_id),
    settings TEXT NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL
);

-- What a filter left out, and why.
CREATE TABLE verdicts (
    id UUID NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    batch_id UUID NOT NULL,
    -- What it was about: an address, or the title of a note.
    subject TEXT NOT NULL,
    -- A JSON object.
    verdict TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL
);

CREATE INDEX verdicts_by_account ON verdicts (account_id, created_at);
CREATE INDEX verdicts_by_time ON verdicts (created_at);

CREATE TABLE batches (
    id UUID NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    -- A JSON array of ids.
    spaces TEXT NOT NULL,
    total BIGINT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'complete', 'failed')),
    -- Why it failed.
    reason TEXT,
    cancelled_at TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    finished_at TIMESTAMPTZ,
    -- Which process works on it, and until when the others leave it alone.
    runner TEXT,
    leased_until TIMESTAMPTZ
);

CREATE INDEX batches_by_account ON batches (account_id, created_at);
CREATE INDEX batches_running ON batches (account_id) WHERE state = 'running';
CREATE INDEX batches_by_time ON batches (created_at);

CREATE TABLE batch_items (
    batch_id UUID NOT NULL REFERENCES batches (id) ON DELETE CASCADE,
    position BIGINT NOT NULL,
    -- An address, or a note: a JSON object, until there is an outcome.
    url TEXT,
    note TEXT,
    -- The how-many-th item of the batch that was finished, from 1: with it, the whole stream can be told again.
    finished BIGINT,
    -- A JSON object.
    outcome TEXT,
    PRIMARY KEY (batch_id, position),
    CHECK ((finished IS NULL) = (outcome IS NULL))
);

CREATE UNIQUE INDEX batch_items_finished ON batch_items (batch_id, finished);
