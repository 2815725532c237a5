-- The newest page of activity of an account of three computers, 100 entries: its sources, then its entries.
\set first random(1, :computers - 3)
SELECT s.id FROM generate_series(:first, :first + 2) n
    CROSS JOIN LATERAL (SELECT id, lane FROM sources WHERE machine_id = md5('m' || n)::UUID OFFSET 0) s;
WITH newest AS (SELECT s.id, s.machine_id, s.agent_id, s.lane FROM generate_series(:first, :first + 2) AS r (id)
    CROSS JOIN LATERAL (SELECT * FROM sources WHERE id = r.id::BIGINT OFFSET 0) s
    CROSS JOIN LATERAL (SELECT n.id, n.received_at_ms FROM events n WHERE n.source_id = s.id
        AND n.received_at_ms >= 0 AND (n.received_at_ms, n.id) < (9223372036854775807, 9223372036854775807)
        ORDER BY n.received_at_ms DESC, n.id DESC LIMIT 1) f
    ORDER BY f.received_at_ms DESC, f.id DESC LIMIT 100)
SELECT e.id, e.event_id, e.event_type, s.lane, s.agent_id, s.machine_id, e.ts_edge_ms, e.received_at_ms, e.consent_level,
    e.redacted, e.chain_epoch, e.seq, e.receipt_id
FROM newest s CROSS JOIN LATERAL (SELECT n.* FROM events n WHERE n.source_id = s.id
    AND n.received_at_ms >= 0 AND (n.received_at_ms, n.id) < (9223372036854775807, 9223372036854775807)
    ORDER BY n.received_at_ms DESC, n.id DESC LIMIT 100) e
ORDER BY e.received_at_ms DESC, e.id DESC LIMIT 100;
