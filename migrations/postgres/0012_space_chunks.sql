-- The chunks of each space by shelf and number. A search of a space reads the newest of them, and tests whether a chunk belongs to the space,
-- without reading any other chunk.
CREATE TABLE space_chunks (
    space_id UUID NOT NULL REFERENCES spaces (id) ON DELETE CASCADE,
    shelf BIGINT NOT NULL,
    -- No foreign key, which would need an index of its own: the transaction that deletes a chunk deletes these rows first.
    chunk_id BIGINT NOT NULL,
    PRIMARY KEY (space_id, shelf, chunk_id)
);

INSERT INTO space_chunks (space_id, shelf, chunk_id)
    SELECT l.space_id, m.shelf, c.id
    FROM memory_spaces l JOIN memories m ON m.id = l.memory_id JOIN chunks c ON c.memory_id = l.memory_id
    ORDER BY l.space_id, m.shelf, c.id;
