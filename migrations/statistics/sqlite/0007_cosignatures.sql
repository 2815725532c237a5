-- The newest checkpoint that each witness has cosigned, with the lines for its note.
CREATE TABLE cosignatures (
    -- Verifier key of the witness.
    witness TEXT NOT NULL PRIMARY KEY,
    -- Key of the log and size of the tree.
    log_vkey TEXT NOT NULL,
    size INTEGER NOT NULL,
    lines TEXT NOT NULL,
    cosigned_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
