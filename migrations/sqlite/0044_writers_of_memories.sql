-- A key limited to spaces does not learn whether another memory has the URL or the text that it adds: it gets a memory of its own.

-- The spaces of the key that wrote the memory, as a JSON array. Null: the writer had access to all spaces of the account.
ALTER TABLE memories ADD COLUMN writer_spaces TEXT;

DROP INDEX memories_dedupe;
CREATE INDEX memories_alike ON memories (shelf, dedupe, id);
