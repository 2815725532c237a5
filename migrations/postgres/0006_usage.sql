-- What accounts used and what they paid.

-- Forwarded events that count, by the identity that they are of and the UTC day on which they were received.
CREATE TABLE usage_days (
    user_cuid TEXT NOT NULL,
    -- Days since 1970-01-01.
    day BIGINT NOT NULL,
    memory BIGINT NOT NULL,
    retrospectives BIGINT NOT NULL,
    PRIMARY KEY (user_cuid, day)
);

-- How many leaves of the embedded log are counted in usage_days. Whoever counts on moves this row in the same transaction.
CREATE TABLE usage_cursor (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    counted BIGINT NOT NULL
);

INSERT INTO usage_cursor (id, counted) VALUES (1, 0);

-- Why accounts.balance_cents is what it is: their sum, entry by entry.
CREATE TABLE balance_entries (
    id UUID PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    cents BIGINT NOT NULL,
    reason TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL
);

CREATE INDEX balance_entries_by_account ON balance_entries (account_id, id);
