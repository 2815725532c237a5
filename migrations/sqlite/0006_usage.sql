-- What accounts used and what they paid.

-- Forwarded events that count, by the identity that they are of and the UTC day on which they were received.
CREATE TABLE usage_days (
    user_cuid TEXT NOT NULL,
    -- Days since 1970-01-01.
    day INTEGER NOT NULL,
    memory INTEGER NOT NULL,
    retrospectives INTEGER NOT NULL,
    PRIMARY KEY (user_cuid, day)
) STRICT, WITHOUT ROWID;

-- How many leaves of the embedded log are counted in usage_days. Whoever counts on moves this row in the same transaction.
CREATE TABLE usage_cursor (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    counted INTEGER NOT NULL
) STRICT;

INSERT INTO usage_cursor (id, counted) VALUES (1, 0);

-- Why accounts.balance_cents is what it is: their sum, entry by entry.
CREATE TABLE balance_entries (
    id BLOB NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    cents INTEGER NOT NULL,
    reason TEXT NOT NULL,
    created_at TEXT NOT NULL
) STRICT;

CREATE INDEX balance_entries_by_account ON balance_entries (account_id, id);
