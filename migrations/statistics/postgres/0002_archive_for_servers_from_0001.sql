-- The folders of the log's archive (docs/decisions/0048-archive.md). Numbers are of bundles of 256 events in the order of the tree. An
-- event that has its body in the archive only has an empty one in `events`.
CREATE TABLE archive (
    -- The first bundle of the folder.
    first BIGINT PRIMARY KEY,
    folder TEXT NOT NULL,
    -- The first bundle that is not in the folder.
    put BIGINT NOT NULL,
    -- The first bundle of the folder that has its bodies in `events`.
    removed BIGINT NOT NULL
);
