-- Whose records an account reads: those of computers that are or were attached to it. An identity alone says nothing, since anybody may
-- register a computer under any identity.

CREATE TABLE attachments (
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    machine_uuid UUID NOT NULL,
    user_cuid TEXT NOT NULL,
    PRIMARY KEY (account_id, machine_uuid, user_cuid)
);

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
ALTER TABLE usage_days ADD COLUMN machine_uuid UUID NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000';
ALTER TABLE usage_days ALTER COLUMN machine_uuid DROP DEFAULT;
ALTER TABLE usage_days DROP CONSTRAINT usage_days_pkey;
ALTER TABLE usage_days ADD PRIMARY KEY (user_cuid, machine_uuid, day);
