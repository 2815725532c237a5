-- The installation that the log belongs to; no row until the facts have adopted it.
CREATE TABLE installation (
    id BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    installation_id UUID NOT NULL
);
