-- One group of 16 events of 16 computers, each the next of its chain: the statement of an append, with parameters that are made here. A server
-- knows the heads that it expects; here `c` reads them, without a lock.
\set first random(1, :computers - 16)
WITH c AS MATERIALIZED (
        SELECT n AS chain, 'codex' AS agent_id, h.chain_epoch, h.seq + 1 AS seq, h.moves, h.machine_id, h.self AS expected,
            sha256(h.self) AS self, gen_random_uuid() AS event_id
        FROM (SELECT set_config('lock_timeout', '250ms', TRUE) OFFSET 0) AS w CROSS JOIN generate_series(:first, :first + 15) n
        CROSS JOIN LATERAL (SELECT h.* FROM chain_heads h
            WHERE h.machine_id = md5('m' || n)::UUID AND h.agent_id = 'codex' OFFSET 0) h),
    e AS MATERIALIZED (
        SELECT c.chain, c.chain AS source_id, c.chain AS pos, c.chain_epoch, c.seq, c.self, c.event_id AS receipt_id,
            (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::BIGINT), 12, '0') || '7' || substr(r.h, 1, 3) || '8'
                || substr(r.h, 4, 15))::UUID AS event_id, (extract(epoch FROM clock_timestamp()) * 1000)::BIGINT AS now
        FROM c CROSS JOIN LATERAL (SELECT md5(c.event_id::TEXT) AS h) r),
    taken AS MATERIALIZED (
        SELECT DISTINCT e.chain FROM e
        CROSS JOIN LATERAL (SELECT 1 FROM events x WHERE x.event_id = e.event_id OFFSET 0) x),
    h AS MATERIALIZED (
        SELECT c.*, t.chain IS NOT NULL AS taken, h.chain_epoch AS found_epoch, h.seq AS found_seq, h.self AS found_self,
            h.event_id AS found_event, h.moves AS found_moves, x.id AS found_number
        FROM c LEFT JOIN taken t ON t.chain = c.chain LEFT JOIN LATERAL (
            SELECT h.chain_epoch, h.seq, h.self, h.event_id, h.moves FROM chain_heads h
            WHERE c.moves > 0 AND h.machine_id = c.machine_id AND h.agent_id = c.agent_id FOR UPDATE SKIP LOCKED) h ON TRUE
        LEFT JOIN LATERAL (SELECT x.id FROM events x WHERE x.event_id = h.event_id OFFSET 0) x ON TRUE),
    moved AS (
        INSERT INTO chain_heads (machine_id, agent_id, chain_epoch, seq, self, event_id, moves)
        SELECT machine_id, agent_id, chain_epoch, seq, self, event_id, moves + 1 FROM h
        WHERE NOT taken AND (moves = 0 OR (found_moves = moves AND found_self = expected))
        ORDER BY machine_id, agent_id
        ON CONFLICT (machine_id, agent_id) DO UPDATE SET chain_epoch = excluded.chain_epoch, seq = excluded.seq,
            self = excluded.self, event_id = excluded.event_id, moves = excluded.moves
        WHERE chain_heads.moves = excluded.moves - 1 RETURNING machine_id, agent_id),
    won AS MATERIALIZED (
        SELECT c.chain FROM c JOIN moved m ON m.machine_id = c.machine_id AND m.agent_id = c.agent_id),
    added AS (
        INSERT INTO events (event_id, receipt_id, source_id, event_type, ts_edge_ms, consent_level, redacted,
            chain_epoch, seq, self, prev_event_id, received_at_ms, leaf_hash, canonical)
        SELECT e.event_id, e.receipt_id, e.source_id, 'memory.stored', e.now, 'full', FALSE, e.chain_epoch, e.seq, e.self,
            e.receipt_id, e.now, sha256(e.self), ''
        FROM e JOIN won w ON w.chain = e.chain ORDER BY e.pos RETURNING id, event_id, leaf_hash),
    queued AS (
        INSERT INTO unsequenced (event, leaf_hash, follows)
        SELECT a.id, a.leaf_hash, COALESCE(lag(a.id) OVER (PARTITION BY e.chain ORDER BY e.pos), h.found_number)
        FROM added a JOIN e ON e.event_id = a.event_id JOIN h ON h.chain = e.chain)
    SELECT h.chain, w.chain IS NOT NULL AS won, h.taken, h.found_epoch AS chain_epoch, h.found_seq AS seq, h.found_self AS self,
        h.found_event AS event_id, h.found_moves AS moves
    FROM h LEFT JOIN won w ON w.chain = h.chain;
