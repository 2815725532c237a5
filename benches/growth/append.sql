-- One group of 16 events of 16 computers, each the next of its chain, with the reads and writes of an append.
\set first random(1, :computers - 16)
\set now random(1, 1000000000)
BEGIN;
SELECT h.* FROM generate_series(:first, :first + 15) n CROSS JOIN LATERAL (SELECT h.chain_epoch, h.seq, h.self, h.event_id, h.moves
    FROM chain_heads h WHERE h.machine_id = md5('m' || n)::UUID AND h.agent_id = 'codex' FOR UPDATE) h;
SELECT e.* FROM generate_series(1, 16) n CROSS JOIN LATERAL (SELECT e.event_id, e.receipt_id, e.self FROM events e
    WHERE e.event_id = md5(:client_id || ':' || :now || ':' || n)::UUID OFFSET 0) e;
WITH added AS (
    INSERT INTO events (event_id, receipt_id, source_id, event_type, ts_edge_ms, consent_level, redacted, chain_epoch, seq, self,
        prev_event_id, received_at_ms, leaf_hash, canonical)
    SELECT (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::BIGINT), 12, '0') || '7' || substr(h, 1, 3) || '8' || substr(h, 4, 15))::UUID,
        h::UUID, :first + n, 'memory.stored', 1700000000000, 'full', false, 0, 1, decode(h || h, 'hex'), h::UUID,
        (extract(epoch FROM clock_timestamp()) * 1000)::BIGINT, decode(h || md5(h), 'hex'), ''
    FROM (SELECT n, md5(random()::TEXT || n) AS h FROM generate_series(0, 15) n) r RETURNING id, leaf_hash)
INSERT INTO unsequenced (event, leaf_hash) SELECT id, leaf_hash FROM added;
UPDATE chain_heads SET seq = seq + 1, moves = moves + 1
    WHERE machine_id IN (SELECT md5('m' || n)::UUID FROM generate_series(:first, :first + 15) n) AND agent_id = 'codex';
COMMIT;
