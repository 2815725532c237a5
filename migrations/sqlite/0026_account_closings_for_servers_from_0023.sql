-- Accounts that their owners closed. Their access ended with this row; the janitor deletes the contents in steps.

CREATE TABLE account_closings (
    account_id TEXT NOT NULL PRIMARY KEY REFERENCES accounts (user_account_id),
    -- The owner, whose row is deleted too, unless they signed in again.
    person_id BLOB,
    closed_at TEXT NOT NULL,
    -- Null while there are contents to delete.
    emptied_at TEXT
) STRICT;

CREATE INDEX account_closings_to_empty ON account_closings (closed_at) WHERE emptied_at IS NULL;
