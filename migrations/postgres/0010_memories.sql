-- Pages and notes, the passages that they are cut into, and what passages are found by.

-- What an account keeps, in numbers. Whoever changes any of it writes this row first: that puts the changes of an account in
-- an order, in which every process can follow them.
CREATE TABLE shelves (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id TEXT NOT NULL UNIQUE REFERENCES accounts (user_account_id),
    memories BIGINT NOT NULL,
    chunks BIGINT NOT NULL,
    -- The sum of the lengths of all chunks.
    words BIGINT NOT NULL,
    -- The number of the newest change.
    changes BIGINT NOT NULL
);

CREATE TABLE memories (
    id UUID NOT NULL PRIMARY KEY,
    shelf BIGINT NOT NULL REFERENCES shelves (number),
    type TEXT NOT NULL,
    title TEXT NOT NULL,
    -- Where a page came from.
    url TEXT,
    content TEXT NOT NULL,
    -- What makes two of them the same: a digest of the canonical address or of the note.
    dedupe BYTEA NOT NULL,
    -- A digest of everything that is shown: whether a page has changed.
    version BYTEA NOT NULL,
    -- The spaces that it is linked to, as a JSON array: `memory_spaces` again, for whoever reads memories by the thousand.
    spaces TEXT NOT NULL,
    chunks BIGINT NOT NULL,
    words BIGINT NOT NULL,
    -- The change of its shelf in which it got as it is.
    changed BIGINT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL
);

CREATE UNIQUE INDEX memories_dedupe ON memories (shelf, dedupe);
CREATE INDEX memories_by_shelf ON memories (shelf, id);
CREATE INDEX memories_by_change ON memories (shelf, changed);

-- What was deleted, for those who follow the changes.
CREATE TABLE memories_deleted (
    shelf BIGINT NOT NULL REFERENCES shelves (number),
    changed BIGINT NOT NULL,
    memory_id UUID NOT NULL,
    PRIMARY KEY (shelf, changed)
);

CREATE TABLE memory_spaces (
    space_id UUID NOT NULL REFERENCES spaces (id) ON DELETE CASCADE,
    memory_id UUID NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    PRIMARY KEY (space_id, memory_id)
);

CREATE INDEX memory_spaces_by_memory ON memory_spaces (memory_id);

-- How many memories of a shelf are linked to a space.
CREATE TABLE space_shelves (
    space_id UUID NOT NULL REFERENCES spaces (id) ON DELETE CASCADE,
    shelf BIGINT NOT NULL REFERENCES shelves (number),
    memories BIGINT NOT NULL,
    PRIMARY KEY (space_id, shelf)
);

CREATE TABLE chunks (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    memory_id UUID NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    ordinal BIGINT NOT NULL,
    content TEXT NOT NULL,
    -- Its length in words, those of the title weighted.
    words BIGINT NOT NULL
);

CREATE UNIQUE INDEX chunks_by_memory ON chunks (memory_id, ordinal);

-- The truth from which every index of vectors is made: 16-bit floats, little-endian. One per chunk; the model is empty until
-- there is one.
CREATE TABLE vectors (
    chunk_id BIGINT NOT NULL PRIMARY KEY REFERENCES chunks (id) ON DELETE CASCADE,
    model TEXT NOT NULL,
    dimensions BIGINT NOT NULL,
    vector BYTEA NOT NULL
);

CREATE INDEX vectors_by_model ON vectors (model, chunk_id);

-- The stems of chunks: from these few numbers, and from how many chunks have a stem at all, the rank of a chunk is computed.
CREATE TABLE words (
    shelf BIGINT NOT NULL,
    stem TEXT COLLATE "C" NOT NULL,
    -- No foreign key, which would be checked for every single posting: whoever deletes a chunk deletes its postings first.
    chunk_id BIGINT NOT NULL,
    -- How often it is there, in the title weighted.
    frequency BIGINT NOT NULL,
    -- The length of the chunk.
    length BIGINT NOT NULL,
    PRIMARY KEY (shelf, stem, chunk_id) INCLUDE (frequency, length)
);

CREATE INDEX words_by_chunk ON words (chunk_id);
