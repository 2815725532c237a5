-- Parts of the log: whole logs on further servers (docs/decisions/0047-log-parts.md), which are PostgreSQL servers. Here the first part is
-- the only one, and these tables stay empty.
CREATE TABLE log_parts (
    log_part INTEGER NOT NULL PRIMARY KEY CHECK (log_part > 0),
    origin TEXT NOT NULL UNIQUE,
    log_vkey TEXT,
    log_checkpoint TEXT,
    log_size INTEGER,
    remembered_at TEXT,
    counted INTEGER NOT NULL DEFAULT 0,
    rule_place INTEGER NOT NULL DEFAULT 0,
    opened_at TEXT NOT NULL
) STRICT;

ALTER TABLE machines ADD COLUMN log_part INTEGER NOT NULL DEFAULT 0;

CREATE TABLE machine_parts (
    machine_uuid BLOB NOT NULL PRIMARY KEY,
    log_part INTEGER NOT NULL CHECK (log_part > 0)
) STRICT;
