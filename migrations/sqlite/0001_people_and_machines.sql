-- Accounts, the people who own them, the identities linked to them, and the computers attached to them.

CREATE TABLE accounts (
    user_account_id TEXT NOT NULL PRIMARY KEY,
    plan TEXT NOT NULL DEFAULT 'FREE' CHECK (plan IN ('FREE', 'PLUS', 'PRO', 'MAX')),
    balance_cents INTEGER NOT NULL DEFAULT 0,
    name TEXT,
    created_at TEXT NOT NULL
) STRICT;

CREATE TABLE persons (
    id BLOB NOT NULL PRIMARY KEY,
    email TEXT NOT NULL UNIQUE,
    name TEXT,
    -- An account has one owner at most.
    account_id TEXT UNIQUE REFERENCES accounts (user_account_id),
    created_at TEXT NOT NULL
) STRICT;

CREATE TABLE identities (
    user_cuid TEXT NOT NULL PRIMARY KEY,
    account_id TEXT REFERENCES accounts (user_account_id),
    -- The chain on which the service itself reports what it changed for this identity.
    control_machine_uuid BLOB UNIQUE,
    created_at TEXT NOT NULL
) STRICT;

CREATE INDEX identities_by_account ON identities (account_id) WHERE account_id IS NOT NULL;

CREATE TABLE machines (
    machine_uuid BLOB NOT NULL PRIMARY KEY,
    user_cuid TEXT NOT NULL REFERENCES identities (user_cuid),
    name TEXT,
    -- Null once the owner detached the computer.
    secret_hash BLOB UNIQUE,
    account_id TEXT REFERENCES accounts (user_account_id),
    first_seen_at TEXT NOT NULL,
    last_seen_at TEXT NOT NULL,
    attached_at TEXT,
    CHECK ((account_id IS NULL) = (attached_at IS NULL))
) STRICT;

CREATE INDEX machines_by_account ON machines (account_id, first_seen_at) WHERE account_id IS NOT NULL;
CREATE INDEX machines_by_identity ON machines (user_cuid);

CREATE TABLE consent_levels (
    user_cuid TEXT NOT NULL REFERENCES identities (user_cuid),
    -- Null: all computers of the identity.
    machine_uuid BLOB,
    -- Null: all lanes.
    lane TEXT CHECK (lane IN ('memory', 'llm', 'skill', 'security', 'squad', 'rsi')),
    level TEXT NOT NULL CHECK (level IN ('off', 'metadata-only', 'full')),
    reason TEXT,
    changed_at TEXT NOT NULL
) STRICT;

-- One level for each scope; nulls are equal here.
CREATE UNIQUE INDEX consent_levels_scope
    ON consent_levels (user_cuid, COALESCE(machine_uuid, x''), COALESCE(lane, ''));

CREATE TABLE sessions (
    token_hash BLOB NOT NULL PRIMARY KEY,
    person_id BLOB NOT NULL REFERENCES persons (id),
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    revoked_at TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_by_person ON sessions (person_id);
CREATE INDEX sessions_by_end ON sessions (expires_at);

-- Touched to learn whether the database takes writes.
CREATE TABLE heartbeat (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    beats INTEGER NOT NULL
) STRICT;

INSERT INTO heartbeat (id, beats) VALUES (1, 0);
