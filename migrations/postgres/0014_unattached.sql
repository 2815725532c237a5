-- What limits senders of whom nobody knows anything, and how they are forgotten.

-- What a computer that is attached to no account, or an agent that nobody claimed, sent on a UTC day.
CREATE TABLE sender_days (
    -- machine:<uuid> or registration:<id>.
    sender TEXT NOT NULL,
    -- Days since 1970-01-01.
    day BIGINT NOT NULL,
    events BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    PRIMARY KEY (sender, day)
);

CREATE INDEX sender_days_by_day ON sender_days (day);

-- The part of held_totals that each sender has. Whoever changes held_totals changes this too.
CREATE TABLE held_senders (
    sender TEXT NOT NULL PRIMARY KEY,
    bytes BIGINT NOT NULL
);

INSERT INTO held_senders (sender, bytes)
SELECT sender, CAST(SUM(charged_bytes) AS BIGINT) FROM held_events WHERE state = 'held' GROUP BY sender;

-- Computers that were never attached, by their last request.
CREATE INDEX machines_unattached ON machines (last_seen_at) WHERE account_id IS NULL AND secret_hash IS NOT NULL;

-- Ids that are never registered again: what was recorded under them stays in the log, and is nobody else's to read.
CREATE TABLE spent_machines (
    machine_uuid UUID NOT NULL PRIMARY KEY,
    -- The identity, until what only this computer held is removed.
    user_cuid TEXT
);

CREATE INDEX spent_machines_to_clean ON spent_machines (machine_uuid) WHERE user_cuid IS NOT NULL;

-- Whether a computer was ever attached.
CREATE INDEX attachments_by_machine ON attachments (machine_uuid);
