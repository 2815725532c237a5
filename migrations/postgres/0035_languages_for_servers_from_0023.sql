-- The language in which the words of a memory are stemmed. Null: never detected, and its words have English stems.
ALTER TABLE memories ADD COLUMN language TEXT;
CREATE INDEX memories_without_language ON memories (id) WHERE language IS NULL;

-- The languages of an account's memories, a bit each: a query is stemmed in each of them.
ALTER TABLE shelves ADD COLUMN languages BIGINT NOT NULL DEFAULT 0;
