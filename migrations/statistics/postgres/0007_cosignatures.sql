-- The newest checkpoint that each witness has cosigned, with the lines for its note.
CREATE TABLE cosignatures (
    -- Verifier key of the witness.
    witness TEXT PRIMARY KEY,
    -- Key of the log and size of the tree.
    log_vkey TEXT NOT NULL,
    size BIGINT NOT NULL,
    lines TEXT NOT NULL,
    cosigned_at TIMESTAMPTZ NOT NULL
);
