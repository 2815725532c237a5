-- Whose records an account reads: those of computers that are or were attached to it. An identity alone says nothing, since anybody may
-- register a computer under any identity.

CREATE TABLE attachments (
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    machine_uuid BLOB NOT NULL,
    user_cuid TEXT NOT NULL,
    PRIMARY KEY (account_id, machine_uuid, user_cuid)
) STRICT, WITHOUT ROWID;

INSERT INTO attachments (account_id, machine_uuid, user_cuid)
SELECT account_id, machine_uuid, user_cuid FROM machines WHERE account_id IS NOT NULL;

-- A computer without a secret was detached from the account of its identity.
INSERT INTO attachments (account_id, machine_uuid, user_cuid)
SELECT i.account_id, m.machine_uuid, m.user_cuid FROM machines m JOIN identities i ON i.user_cuid = m.user_cuid
WHERE m.account_id IS NULL AND m.secret_hash IS NULL AND i.account_id IS NOT NULL;

-- Which computer registered under an identity first.
DROP INDEX machines_by_identity;
CREATE INDEX machines_by_identity ON machines (user_cuid, first_seen_at, machine_uuid);

-- Forwarded events that count, by the computer that recorded them, its identity, and the UTC day on which they were received. What was
-- counted before computers were told apart has a computer of zeros, and counts for the account of its identity.
CREATE TABLE usage_days_of_machines (
    user_cuid TEXT NOT NULL,
    machine_uuid BLOB NOT NULL,
    -- Days since 1970-01-01.
    day INTEGER NOT NULL,
    memory INTEGER NOT NULL,
    retrospectives INTEGER NOT NULL,
    PRIMARY KEY (user_cuid, machine_uuid, day)
) STRICT, WITHOUT ROWID;

INSERT INTO usage_days_of_machines (user_cuid, machine_uuid, day, memory, retrospectives)
SELECT user_cuid, zeroblob(16), day, memory, retrospectives FROM usage_days;

DROP TABLE usage_days;
ALTER TABLE usage_days_of_machines RENAME TO usage_days;
