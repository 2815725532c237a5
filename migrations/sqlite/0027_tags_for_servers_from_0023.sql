-- Tags of memories: words by which an account sorts them. They belong to the memory, and everyone who can read it can read them.

-- As a JSON array of sorted texts: `memory_tags` again, so that a list of memories reads one table.
ALTER TABLE memories ADD COLUMN tags TEXT NOT NULL DEFAULT '[]';

CREATE TABLE memory_tags (
    memory_id BLOB NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    tag TEXT NOT NULL,
    shelf INTEGER NOT NULL REFERENCES shelves (number),
    PRIMARY KEY (memory_id, tag)
) STRICT;

-- The memories of an account with a tag, in the order of their ids.
CREATE INDEX memory_tags_by_tag ON memory_tags (shelf, tag, memory_id);
CREATE INDEX memories_by_type ON memories (shelf, type, id);
