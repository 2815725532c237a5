-- Keys of the knowledge API.

CREATE TABLE api_keys (
    id UUID PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    name TEXT NOT NULL,
    key_hash BYTEA NOT NULL UNIQUE,
    -- Words with commas between them.
    scopes TEXT NOT NULL,
    -- A JSON array of ids; null is every space of the account.
    spaces TEXT,
    created_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ,
    last_used_at TIMESTAMPTZ,
    revoked_at TIMESTAMPTZ
);

CREATE INDEX api_keys_by_account ON api_keys (account_id, created_at);
