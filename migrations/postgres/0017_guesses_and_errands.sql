-- Wrong device codes that agents typed are counted apart from those of the person for whom they act: an agent cannot keep its person from
-- attaching computers.
ALTER TABLE device_guesses ADD COLUMN by_agent BOOLEAN NOT NULL DEFAULT FALSE;

-- Ways to an OpenID provider and back that were completed: each works once.
CREATE TABLE signin_errands (
    -- SHA-256 of what the browser kept of it.
    errand_hash BYTEA PRIMARY KEY,
    -- After this it works no more anyway, and the row can go.
    expires_at TIMESTAMPTZ NOT NULL
);

CREATE INDEX signin_errands_by_end ON signin_errands (expires_at);
