-- Sign-in by mailed code, letters that wait to be sent, and what people see of their sessions.

-- One row per address that asked for a code: whoever asks locks it first, so that codes are counted one after the other.
CREATE TABLE signin_addresses (
    email TEXT NOT NULL PRIMARY KEY,
    asked_at TEXT NOT NULL
) STRICT;

CREATE INDEX signin_addresses_by_time ON signin_addresses (asked_at);

CREATE TABLE signin_tickets (
    -- SHA-256 of the secret that the asking browser keeps.
    ticket_hash BLOB NOT NULL PRIMARY KEY,
    email TEXT NOT NULL,
    sealed_code BLOB NOT NULL,
    -- Path to go to after signing in.
    next TEXT,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL CHECK (state IN ('live', 'superseded', 'used'))
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX signin_tickets_live ON signin_tickets (email) WHERE state = 'live';
CREATE INDEX signin_tickets_by_email ON signin_tickets (email, created_at);
CREATE INDEX signin_tickets_by_end ON signin_tickets (expires_at);

CREATE TABLE mails (
    id BLOB NOT NULL PRIMARY KEY,
    recipient TEXT NOT NULL,
    subject TEXT NOT NULL,
    text TEXT NOT NULL,
    created_at TEXT NOT NULL,
    next_try_at TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    sent_at TEXT,
    given_up_at TEXT,
    CHECK (sent_at IS NULL OR given_up_at IS NULL)
) STRICT;

CREATE INDEX mails_due ON mails (next_try_at) WHERE sent_at IS NULL AND given_up_at IS NULL;
CREATE INDEX mails_by_time ON mails (created_at);

-- Sessions get an id that may be shown, and say how and where they began. Those from before were made by operators.
CREATE TABLE sessions_next (
    token_hash BLOB NOT NULL PRIMARY KEY,
    id BLOB NOT NULL,
    person_id BLOB NOT NULL REFERENCES persons (id),
    -- code, operator, or oidc: and the provider's name.
    via TEXT NOT NULL,
    address TEXT,
    user_agent TEXT,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    revoked_at TEXT
) STRICT, WITHOUT ROWID;

INSERT INTO sessions_next (token_hash, id, person_id, via, created_at, expires_at, revoked_at)
    SELECT token_hash, unhex(hex(randomblob(6)) || '70' || hex(randomblob(1)) || '80' || hex(randomblob(7))), person_id, 'operator',
        created_at, expires_at, revoked_at
    FROM sessions;

DROP TABLE sessions;
ALTER TABLE sessions_next RENAME TO sessions;
CREATE UNIQUE INDEX sessions_by_id ON sessions (id);
CREATE INDEX sessions_by_person ON sessions (person_id);
CREATE INDEX sessions_by_end ON sessions (expires_at);
