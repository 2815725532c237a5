-- The feed of an account, and its entries: notifications, each written in the transaction of the fact that it reports.

CREATE TABLE feeds (
    account_id TEXT NOT NULL PRIMARY KEY REFERENCES accounts (user_account_id),
    -- SHA-256 of the secret in its link.
    token_hash BLOB NOT NULL UNIQUE,
    -- Words, each between commas.
    kinds TEXT NOT NULL,
    created_at TEXT NOT NULL
) STRICT;

-- Without a reference to feeds: a fact does not fail because the feed is deleted at the same moment.
CREATE TABLE feed_entries (
    account_id TEXT NOT NULL,
    notification_id BLOB NOT NULL,
    kind TEXT NOT NULL,
    -- The body, as webhooks get it.
    body TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (account_id, notification_id)
) STRICT;

CREATE INDEX feed_entries_newest ON feed_entries (account_id, created_at, notification_id);
CREATE INDEX feed_entries_oldest ON feed_entries (created_at);
