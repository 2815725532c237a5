-- Sign-in by mailed code, letters that wait to be sent, and what people see of their sessions.

-- One row per address that asked for a code: whoever asks locks it first, so that codes are counted one after the other.
CREATE TABLE signin_addresses (
    email TEXT PRIMARY KEY,
    asked_at TIMESTAMPTZ NOT NULL
);

CREATE INDEX signin_addresses_by_time ON signin_addresses (asked_at);

CREATE TABLE signin_tickets (
    -- SHA-256 of the secret that the asking browser keeps.
    ticket_hash BYTEA PRIMARY KEY,
    email TEXT NOT NULL,
    sealed_code BYTEA NOT NULL,
    -- Path to go to after signing in.
    next TEXT,
    created_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL,
    tries BIGINT NOT NULL DEFAULT 0,
    state TEXT NOT NULL CHECK (state IN ('live', 'superseded', 'used'))
);

CREATE UNIQUE INDEX signin_tickets_live ON signin_tickets (email) WHERE state = 'live';
CREATE INDEX signin_tickets_by_email ON signin_tickets (email, created_at);
CREATE INDEX signin_tickets_by_end ON signin_tickets (expires_at);

CREATE TABLE mails (
    id UUID PRIMARY KEY,
    recipient TEXT NOT NULL,
    subject TEXT NOT NULL,
    text TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    next_try_at TIMESTAMPTZ NOT NULL,
    tries BIGINT NOT NULL DEFAULT 0,
    sent_at TIMESTAMPTZ,
    given_up_at TIMESTAMPTZ,
    CHECK (sent_at IS NULL OR given_up_at IS NULL)
);

CREATE INDEX mails_due ON mails (next_try_at) WHERE sent_at IS NULL AND given_up_at IS NULL;
CREATE INDEX mails_by_time ON mails (created_at);

-- Sessions get an id that may be shown, and say how and where they began. Those from before were made by operators.
ALTER TABLE sessions ADD COLUMN id UUID;
UPDATE sessions SET id = overlay(gen_random_uuid()::TEXT PLACING '7' FROM 15 FOR 1)::UUID;
ALTER TABLE sessions ALTER COLUMN id SET NOT NULL;
-- code, operator, or oidc: and the provider's name.
ALTER TABLE sessions ADD COLUMN via TEXT NOT NULL DEFAULT 'operator';
ALTER TABLE sessions ALTER COLUMN via DROP DEFAULT;
ALTER TABLE sessions ADD COLUMN address TEXT;
ALTER TABLE sessions ADD COLUMN user_agent TEXT;
CREATE UNIQUE INDEX sessions_by_id ON sessions (id);
