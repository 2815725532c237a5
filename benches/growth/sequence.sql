-- Places for 256 events that wait: what a pass reads, and what it writes with the last tile of the lowest level.
BEGIN;
WITH waiting AS MATERIALIZED (SELECT event, leaf_hash, follows FROM unsequenced ORDER BY event LIMIT 256),
    r AS (SELECT event, row_number() OVER (ORDER BY event) - 1 AS place FROM waiting),
    gone AS (DELETE FROM unsequenced u USING r WHERE u.event = r.event)
INSERT INTO leaves (event, leaf_index) SELECT event, t.size + place FROM r CROSS JOIN tree t;
INSERT INTO tiles (level, place, hashes)
    SELECT 0, t.size / 256, (SELECT string_agg(sha256(n::TEXT::BYTEA), ''::BYTEA) FROM generate_series(1, 256) n) FROM tree t
    ON CONFLICT (level, place) DO UPDATE SET hashes = excluded.hashes;
UPDATE tree SET size = size + 256 WHERE id = 1;
COMMIT;
