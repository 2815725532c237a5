-- The settings that all nodes have in common, as JSON: for each path a prefix of the SHA-256 of its value, never the value. Null: a node of
-- a version without.
ALTER TABLE nodes ADD COLUMN settings TEXT;
