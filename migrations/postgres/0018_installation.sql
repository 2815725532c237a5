-- Which installation these facts belong to, and what they remember of its embedded log: the key, the newest checkpoint that was seen,
-- and its leaves. A log that does not continue this checkpoint is not the one that belongs to these facts.
CREATE TABLE installation (
    id BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    installation_id UUID NOT NULL,
    -- Null while there was no embedded log.
    log_vkey TEXT,
    log_checkpoint TEXT,
    log_size BIGINT,
    remembered_at TIMESTAMPTZ
);
