-- Parts of the log: whole logs on further servers (docs/decisions/0047-log-parts.md). The first part has no row in `log_parts`:
-- `installation` and `usage_cursor` describe it, as before.
CREATE TABLE log_parts (
    log_part BIGINT PRIMARY KEY CHECK (log_part > 0),
    origin TEXT NOT NULL UNIQUE,
    -- Null until the newest checkpoint was stored.
    log_vkey TEXT,
    log_checkpoint TEXT,
    log_size BIGINT,
    remembered_at TIMESTAMPTZ,
    -- Number of leaves whose usage is counted.
    counted BIGINT NOT NULL DEFAULT 0,
    -- Place in the tree of the first event that rules have not read.
    rule_place BIGINT NOT NULL DEFAULT 0,
    opened_at TIMESTAMPTZ NOT NULL
);

-- The part of the computer's chains, read with its facts for each event.
ALTER TABLE machines ADD COLUMN log_part BIGINT NOT NULL DEFAULT 0;

-- The same for further parts, kept when a computer is removed: its events stay in the part, and so does a computer that registers again.
CREATE TABLE machine_parts (
    machine_uuid UUID PRIMARY KEY,
    log_part BIGINT NOT NULL CHECK (log_part > 0)
);
