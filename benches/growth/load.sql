-- Fills the tables of the embedded log with :events events of :computers computers, without bodies, and the table of usage with 30 days of each
-- computer, on PostgreSQL.
--
-- Rows, columns and indexes are those of the product; hashes and ids have their size and their distribution. The tree has its tiles and its
-- places, but hashes above the leaves are not those of RFC 6962, and nothing is signed: an audit of this log fails.

\set ON_ERROR_STOP on
SET synchronous_commit = off;
SET maintenance_work_mem = '1GB';

INSERT INTO sources (machine_id, agent_id, user_cuid, lane)
    SELECT md5('m' || n)::UUID, 'codex', 'c' || substr(md5('u' || n), 1, 23), 'memory' FROM generate_series(1, :computers) n;
INSERT INTO chain_heads (machine_id, agent_id, chain_epoch, seq, self, event_id, moves)
    SELECT md5('m' || n)::UUID, 'codex', 0, :events / :computers, sha256(('h' || n)::BYTEA), md5('h' || n)::UUID, 1
    FROM generate_series(1, :computers) n;

-- Indexes are built after the rows, as a restore does.
ALTER TABLE events DROP CONSTRAINT events_event_id_key;
DROP INDEX events_by_source;
ALTER TABLE leaves DROP CONSTRAINT leaves_pkey;
DROP INDEX leaves_by_place;

-- Version 7 ids grow with the clock, one event a millisecond; computers take turns.
INSERT INTO events (event_id, receipt_id, source_id, event_type, ts_edge_ms, consent_level, redacted, chain_epoch, seq, self,
    prev_event_id, received_at_ms, leaf_hash, canonical)
SELECT (lpad(to_hex(1700000000000 + n), 12, '0') || '7' || substr(h, 1, 3) || '8' || substr(h, 4, 15))::UUID,
    (lpad(to_hex(1700000000000 + n), 12, '0') || '7' || substr(h, 17, 3) || '8' || substr(h, 18, 15))::UUID,
    1 + n % :computers, 'memory.stored', 1700000000000 + n, 'full', false, 0, n / :computers, decode(h || h, 'hex'), h::UUID,
    1700000000000 + n, decode(h || md5(h), 'hex'), ''
FROM (SELECT n, md5(n::TEXT) AS h FROM generate_series(1::BIGINT, :events) n) r;
INSERT INTO leaves (event, leaf_index) SELECT n, n - 1 FROM generate_series(1::BIGINT, :events) n;
INSERT INTO tiles (level, place, hashes)
    SELECT 0, (id - 1) / 256, string_agg(leaf_hash, ''::BYTEA ORDER BY id) FROM events GROUP BY 2;
INSERT INTO tiles (level, place, hashes)
    SELECT 1, place / 256, string_agg(sha256(hashes), ''::BYTEA ORDER BY place) FROM tiles WHERE level = 0 GROUP BY 2;
INSERT INTO tiles (level, place, hashes)
    SELECT 2, place / 256, string_agg(sha256(hashes), ''::BYTEA ORDER BY place) FROM tiles WHERE level = 1 GROUP BY 2;
INSERT INTO tree (id, size, root, checkpoint, vkey, signed_at)
    VALUES (1, :events, sha256('root'), 'not signed', 'none', now());

CREATE TABLE usage_days (user_cuid TEXT NOT NULL, day BIGINT NOT NULL, memory BIGINT NOT NULL, retrospectives BIGINT NOT NULL, machine_uuid UUID NOT NULL);
INSERT INTO usage_days (user_cuid, day, memory, retrospectives, machine_uuid)
    SELECT 'c' || substr(md5('u' || n), 1, 23), day, 3, 1, md5('m' || n)::UUID FROM generate_series(20000, 20029) day, generate_series(1, :computers) n;
ALTER TABLE usage_days ADD PRIMARY KEY (user_cuid, machine_uuid, day);
CREATE INDEX usage_days_by_day ON usage_days (day);

ALTER TABLE events ADD CONSTRAINT events_event_id_key UNIQUE (event_id);
CREATE INDEX events_by_source ON events (source_id, received_at_ms, id);
ALTER TABLE leaves ADD CONSTRAINT leaves_pkey PRIMARY KEY (event);
CREATE UNIQUE INDEX leaves_by_place ON leaves (leaf_index);
VACUUM ANALYZE;
CHECKPOINT;
