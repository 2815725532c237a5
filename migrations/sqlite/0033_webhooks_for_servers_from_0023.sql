-- Endpoints that an account is notified at, and the outbox of notifications: a row is written in the transaction of the fact that it reports.

CREATE TABLE webhooks (
    id BLOB NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    url TEXT NOT NULL,
    description TEXT NOT NULL,
    -- Words, each between commas.
    kinds TEXT NOT NULL,
    -- Keys of the signatures, 32 bytes. The older one signs too, until its end.
    secret BLOB NOT NULL,
    old_secret BLOB,
    old_secret_until TEXT,
    created_at TEXT NOT NULL,
    disabled_at TEXT,
    disabled_why TEXT CHECK (disabled_why IN ('owner', 'gone', 'failing')),
    -- The first failure after the last success.
    failing_since TEXT,
    -- The process that sends to the endpoint, one delivery at a time.
    lease BLOB,
    leased_until TEXT,
    CHECK ((disabled_at IS NULL) = (disabled_why IS NULL))
) STRICT;

CREATE INDEX webhooks_by_account ON webhooks (account_id, created_at);

CREATE TABLE webhook_deliveries (
    webhook_id BLOB NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    notification_id BLOB NOT NULL,
    kind TEXT NOT NULL,
    -- The body, byte for byte.
    body TEXT NOT NULL,
    created_at TEXT NOT NULL,
    -- Null once it is settled: delivered, or given up.
    next_try_at TEXT,
    tries INTEGER NOT NULL DEFAULT 0,
    last_try_at TEXT,
    -- The result of the last try.
    status INTEGER,
    error TEXT,
    settled_at TEXT,
    is_delivered INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (webhook_id, notification_id),
    CHECK ((next_try_at IS NULL) = (settled_at IS NOT NULL))
) STRICT;

CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, next_try_at) WHERE next_try_at IS NOT NULL;
CREATE INDEX webhook_deliveries_newest ON webhook_deliveries (webhook_id, created_at);
CREATE INDEX webhook_deliveries_settled ON webhook_deliveries (settled_at) WHERE settled_at IS NOT NULL;
