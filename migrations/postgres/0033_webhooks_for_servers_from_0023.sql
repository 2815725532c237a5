-- Endpoints that an account is notified at, and the outbox of notifications: a row is written in the transaction of the fact that it reports.

CREATE TABLE webhooks (
    id UUID PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    url TEXT NOT NULL,
    description TEXT NOT NULL,
    -- Words, each between commas.
    kinds TEXT NOT NULL,
    -- Keys of the signatures, 32 bytes. The older one signs too, until its end.
    secret BYTEA NOT NULL,
    old_secret BYTEA,
    old_secret_until TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    disabled_at TIMESTAMPTZ,
    disabled_why TEXT CHECK (disabled_why IN ('owner', 'gone', 'failing')),
    -- The first failure after the last success.
    failing_since TIMESTAMPTZ,
    -- The process that sends to the endpoint, one delivery at a time.
    lease UUID,
    leased_until TIMESTAMPTZ,
    CHECK ((disabled_at IS NULL) = (disabled_why IS NULL))
);

CREATE INDEX webhooks_by_account ON webhooks (account_id, created_at);

CREATE TABLE webhook_deliveries (
    webhook_id UUID NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    notification_id UUID NOT NULL,
    kind TEXT NOT NULL,
    -- The body, byte for byte.
    body TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    -- Null once it is settled: delivered, or given up.
    next_try_at TIMESTAMPTZ,
    tries BIGINT NOT NULL DEFAULT 0,
    last_try_at TIMESTAMPTZ,
    -- The result of the last try.
    status BIGINT,
    error TEXT,
    settled_at TIMESTAMPTZ,
    is_delivered BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (webhook_id, notification_id),
    CHECK ((next_try_at IS NULL) = (settled_at IS NOT NULL))
);

CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, next_try_at) WHERE next_try_at IS NOT NULL;
CREATE INDEX webhook_deliveries_newest ON webhook_deliveries (webhook_id, created_at);
CREATE INDEX webhook_deliveries_settled ON webhook_deliveries (settled_at) WHERE settled_at IS NOT NULL;
