-- What people change about their consent is itself reported, on a chain of the service's own for every identity.

-- Where that chain goes on.
ALTER TABLE identities ADD COLUMN control_chain_epoch BIGINT NOT NULL DEFAULT 0;
ALTER TABLE identities ADD COLUMN control_seq BIGINT NOT NULL DEFAULT 0;
-- The seal of its last event; null at the beginning of an epoch.
ALTER TABLE identities ADD COLUMN control_prev BYTEA;

-- Events written together with the change that they report, until the statistics service has them.
CREATE TABLE consent_outbox (
    event_id UUID PRIMARY KEY,
    user_cuid TEXT NOT NULL REFERENCES identities (user_cuid),
    account_id TEXT,
    chain_epoch BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    body BYTEA NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    UNIQUE (user_cuid, chain_epoch, seq)
);
