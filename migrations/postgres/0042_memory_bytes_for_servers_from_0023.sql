-- Sizes of memories, of which the plan of an account permits a sum (plans.*.memory_bytes). A memory that a server without this migration adds
-- counts nothing.

-- Bytes of text, title and URL.
ALTER TABLE memories ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0;
-- The sum of its memories.
ALTER TABLE shelves ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0;

UPDATE memories SET bytes = octet_length(content) + octet_length(title) + coalesce(octet_length(url), 0);
UPDATE shelves SET bytes = (SELECT coalesce(sum(memories.bytes), 0) FROM memories WHERE memories.shelf = shelves.number);
