-- Imports run as batches do. The note of an item has a memory, or the fault of a line.

ALTER TABLE batches ADD COLUMN kind TEXT NOT NULL DEFAULT 'batch' CHECK (kind IN ('batch', 'import'));
