-- Pages and notes, the passages that they are cut into, and what passages are found by.

-- What an account keeps, in numbers. Whoever changes any of it writes this row first: that puts the changes of an account in
-- an order, in which every process can follow them.
CREATE TABLE shelves (
    number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    account_id TEXT NOT NULL UNIQUE REFERENCES accounts (user_account_id),
    memories INTEGER NOT NULL,
    chunks INTEGER NOT NULL,
    -- The sum of the lengths of all chunks.
    words INTEGER NOT NULL,
    -- The number of the newest change.
    changes INTEGER NOT NULL
) STRICT;

CREATE TABLE memories (
    id BLOB NOT NULL PRIMARY KEY,
    shelf INTEGER NOT NULL REFERENCES shelves (number),
    type TEXT NOT NULL,
    title TEXT NOT NULL,
    -- Where a page came from.
    url TEXT,
    content TEXT NOT NULL,
    -- What makes two of them the same: a digest of the canonical address or of the note.
    dedupe BLOB NOT NULL,
    -- A digest of everything that is shown: whether a page has changed.
    version BLOB NOT NULL,
    -- The spaces that it is linked to, as a JSON array: `memory_spaces` again, for whoever reads memories by the thousand.
    spaces TEXT NOT NULL,
    chunks INTEGER NOT NULL,
    words INTEGER NOT NULL,
    -- The change of its shelf in which it got as it is.
    changed INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX memories_dedupe ON memories (shelf, dedupe);
CREATE INDEX memories_by_shelf ON memories (shelf, id);
CREATE INDEX memories_by_change ON memories (shelf, changed);

-- What was deleted, for those who follow the changes.
CREATE TABLE memories_deleted (
    shelf INTEGER NOT NULL REFERENCES shelves (number),
    changed INTEGER NOT NULL,
    memory_id BLOB NOT NULL,
    PRIMARY KEY (shelf, changed)
) STRICT;

CREATE TABLE memory_spaces (
    space_id BLOB NOT NULL REFERENCES spaces (id) ON DELETE CASCADE,
    memory_id BLOB NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    PRIMARY KEY (space_id, memory_id)
) STRICT;

CREATE INDEX memory_spaces_by_memory ON memory_spaces (memory_id);

-- How many memories of a shelf are linked to a space.
CREATE TABLE space_shelves (
    space_id BLOB NOT NULL REFERENCES spaces (id) ON DELETE CASCADE,
    shelf INTEGER NOT NULL REFERENCES shelves (number),
    memories INTEGER NOT NULL,
    PRIMARY KEY (space_id, shelf)
) STRICT;

CREATE TABLE chunks (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    memory_id BLOB NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    content TEXT NOT NULL,
    -- Its length in words, those of the title weighted.
    words INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX chunks_by_memory ON chunks (memory_id, ordinal);

-- The truth from which every index of vectors is made: 16-bit floats, little-endian. One per chunk; the model is empty until
-- there is one.
CREATE TABLE vectors (
    chunk_id INTEGER NOT NULL PRIMARY KEY REFERENCES chunks (id) ON DELETE CASCADE,
    model TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    vector BLOB NOT NULL
) STRICT;

CREATE INDEX vectors_by_model ON vectors (model, chunk_id);

-- The stems of chunks, each behind the number of its shelf, so that the words of one account never meet those of another.
CREATE VIRTUAL TABLE words USING fts5 (stems, content = '', contentless_delete = 1, tokenize = 'ascii');
CREATE VIRTUAL TABLE words_counted USING fts5vocab (words, row);
