-- The rows that a proof reads: a random event with its place and the leaves beside it, then one tile of each level. A server caches the upper ones.
\set event random(1, :events)
SELECT e.event_id, e.receipt_id, s.machine_id, s.user_cuid, s.agent_id, e.chain_epoch, e.seq, e.self AS self_hash, e.prev_event_id,
    e.received_at_ms, e.leaf_hash, e.canonical, l.leaf_index, t.size AS tree_size,
    (SELECT substr(h.hashes, CAST((l.leaf_index) % 256 / 16 * 512 + 1 AS INTEGER), 512) FROM tiles h
        WHERE h.level = 0 AND h.place = (l.leaf_index) / 256) AS siblings
FROM events e JOIN sources s ON s.id = e.source_id LEFT JOIN leaves l ON l.event = e.id CROSS JOIN tree t
WHERE t.id = 1 AND e.event_id = (SELECT (lpad(to_hex(1700000000000 + n), 12, '0') || '7' || substr(md5(n::TEXT), 1, 3) || '8'
    || substr(md5(n::TEXT), 4, 15))::UUID FROM (SELECT :event::BIGINT AS n) r);
SELECT t.* FROM (VALUES (0, (:event - 1) / 256), (1, (:event - 1) / 65536), (2, (:event - 1) / 16777216)) AS r (level, place)
    CROSS JOIN LATERAL (SELECT t.level, t.place, t.hashes FROM tiles t WHERE t.level = r.level AND t.place = r.place) t;
