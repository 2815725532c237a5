-- What people change about their consent is itself reported, on a chain of the service's own for every identity.

-- Where that chain goes on.
ALTER TABLE identities ADD COLUMN control_chain_epoch INTEGER NOT NULL DEFAULT 0;
ALTER TABLE identities ADD COLUMN control_seq INTEGER NOT NULL DEFAULT 0;
-- The seal of its last event; null at the beginning of an epoch.
ALTER TABLE identities ADD COLUMN control_prev BLOB;

-- Events written together with the change that they report, until the statistics service has them.
CREATE TABLE consent_outbox (
    event_id BLOB NOT NULL PRIMARY KEY,
    user_cuid TEXT NOT NULL REFERENCES identities (user_cuid),
    account_id TEXT,
    chain_epoch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    body BLOB NOT NULL,
    created_at TEXT NOT NULL,
    UNIQUE (user_cuid, chain_epoch, seq)
) STRICT, WITHOUT ROWID;
