-- Agents: registrations, the attempts to claim them, their access tokens, and the keys of the server.

CREATE TABLE registrations (
    id BLOB NOT NULL PRIMARY KEY,
    registration_type TEXT NOT NULL CHECK (registration_type IN ('anonymous', 'service_auth')),
    login_hint TEXT,
    claim_token_hash BLOB NOT NULL UNIQUE,
    claim_token_expires_at TEXT NOT NULL,
    created_at TEXT NOT NULL,
    ip_address TEXT,
    last_token_at TEXT,
    account_id TEXT REFERENCES accounts (user_account_id),
    person_id BLOB REFERENCES persons (id),
    claimed_email TEXT,
    claimed_at TEXT,
    -- With which credential the person confirmed.
    claimed_via TEXT,
    revoked_at TEXT,
    -- Moves with every transition, so that another process can learn what to read again.
    changed_at TEXT NOT NULL,
    CHECK ((account_id IS NULL) = (claimed_at IS NULL)),
    CHECK ((person_id IS NULL) = (claimed_at IS NULL)),
    CHECK ((claimed_email IS NULL) = (claimed_at IS NULL))
) STRICT;

CREATE INDEX registrations_by_account ON registrations (account_id, created_at) WHERE account_id IS NOT NULL;
CREATE INDEX registrations_by_change ON registrations (changed_at);
CREATE INDEX registrations_unclaimed ON registrations (claim_token_expires_at) WHERE claimed_at IS NULL;

CREATE TABLE claim_attempts (
    token_hash BLOB NOT NULL PRIMARY KEY,
    registration_id BLOB NOT NULL REFERENCES registrations (id) ON DELETE CASCADE,
    -- 1 for the first attempt of its registration.
    number INTEGER NOT NULL,
    sealed_code BLOB NOT NULL,
    email TEXT,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    wrong_tries INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL CHECK (state IN ('live', 'superseded', 'burnt', 'completed')),
    UNIQUE (registration_id, number)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX claim_attempts_live ON claim_attempts (registration_id) WHERE state = 'live';
CREATE INDEX claim_attempts_by_end ON claim_attempts (expires_at);

CREATE TABLE access_tokens (
    token_hash BLOB NOT NULL PRIMARY KEY,
    registration_id BLOB NOT NULL REFERENCES registrations (id) ON DELETE CASCADE,
    scope TEXT NOT NULL CHECK (scope IN ('svc.events', 'svc.account')),
    account_id TEXT REFERENCES accounts (user_account_id),
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    revoked_at TEXT,
    CHECK ((account_id IS NULL) = (scope = 'svc.events'))
) STRICT, WITHOUT ROWID;

CREATE INDEX access_tokens_by_registration ON access_tokens (registration_id);
CREATE INDEX access_tokens_by_end ON access_tokens (expires_at);

CREATE TABLE assertion_keys (
    kid TEXT NOT NULL PRIMARY KEY,
    seed BLOB NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('next', 'active', 'retired')),
    created_at TEXT NOT NULL,
    activated_at TEXT,
    retired_at TEXT
) STRICT;

-- One key signs, one is announced.
CREATE UNIQUE INDEX assertion_keys_one ON assertion_keys (state) WHERE state <> 'retired';

CREATE TABLE server_keys (
    name TEXT NOT NULL PRIMARY KEY,
    secret BLOB NOT NULL
) STRICT;
