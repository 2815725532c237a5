//! Statements that only PostgreSQL executes: appending and sequencing by several processes. Those about many rows take the parameters of
//! [`Rows`](super::Rows).

/// Heads of chains, events that are stored already, and numbers of sources, of one moment and without locks, as
/// [`FoundRow`](super::FoundRow). Parameters: chains, their bytes; positions of the ids of events, the ids; sources, their bytes.
pub const READ: &str = "SELECT h.chain, NULL::BIGINT AS source, NULL::UUID AS receipt_id, h.chain_epoch, h.seq, h.self, h.event_id, h.moves
    FROM (SELECT r.chain, h.* FROM jsonb_to_recordset($1::JSONB) AS r (chain BIGINT, pos INT, agent_id TEXT)
        CROSS JOIN LATERAL (SELECT h.chain_epoch, h.seq, h.self, h.event_id, h.moves FROM chain_heads h
            WHERE h.machine_id = encode(substr($2, r.pos, 16), 'hex')::UUID AND h.agent_id = r.agent_id OFFSET 0) h) h
    UNION ALL SELECT NULL, NULL, e.receipt_id, NULL, NULL, e.self, e.event_id, NULL
    FROM jsonb_array_elements_text($3::JSONB) AS r (pos)
    CROSS JOIN LATERAL (SELECT e.event_id, e.receipt_id, e.self FROM events e
        WHERE e.event_id = encode(substr($4, r.pos::INT, 16), 'hex')::UUID OFFSET 0) e
    UNION ALL SELECT r.place, s.id, NULL, NULL, NULL, NULL, NULL, NULL
    FROM jsonb_to_recordset($5::JSONB) AS r (place BIGINT, pos INT, agent_id TEXT, user_cuid TEXT, lane TEXT)
    CROSS JOIN LATERAL (SELECT s.id FROM sources s WHERE s.machine_id = encode(substr($6, r.pos, 16), 'hex')::UUID
        AND s.agent_id = r.agent_id AND s.user_cuid = r.user_cuid AND s.lane = r.lane OFFSET 0) s";
/// `(place, id)` of sources; those that are new are added. A source that another process adds at the same moment is not returned.
pub const SOURCES: &str = "WITH r AS MATERIALIZED (
        SELECT r.place, encode(substr($2, r.pos, 16), 'hex')::UUID AS machine_id, r.agent_id, r.user_cuid, r.lane
        FROM (SELECT set_config('lock_timeout', '250ms', TRUE) OFFSET 0) AS w CROSS JOIN
            jsonb_to_recordset($1::JSONB) AS r (place BIGINT, pos INT, agent_id TEXT, user_cuid TEXT, lane TEXT)),
    known AS MATERIALIZED (
        SELECT r.place, s.id FROM r CROSS JOIN LATERAL (SELECT s.id FROM sources s WHERE s.machine_id = r.machine_id
            AND s.agent_id = r.agent_id AND s.user_cuid = r.user_cuid AND s.lane = r.lane OFFSET 0) s),
    added AS (
        INSERT INTO sources (machine_id, agent_id, user_cuid, lane)
        SELECT machine_id, agent_id, user_cuid, lane FROM r WHERE place NOT IN (SELECT place FROM known)
        ORDER BY 1, 2, 3, 4 ON CONFLICT DO NOTHING RETURNING id, machine_id, agent_id, user_cuid, lane)
    SELECT place, id FROM known
    UNION ALL SELECT r.place, a.id FROM r JOIN added a ON a.machine_id = r.machine_id AND a.agent_id = r.agent_id
        AND a.user_cuid = r.user_cuid AND a.lane = r.lane";
/// Appends the events of some chains, and queues them for sequencing; each chain by itself: all its events and its head, or nothing.
/// Parameters: chains ([`ChainRow`](super::ChainRow)), their bytes; events ([`EventRow`](super::EventRow)), their bytes.
///
/// 1. `h`: locks the heads that nothing else has locked. A head that a running transaction has locked is absent.
/// 2. `moved`: moves the heads that still are as the caller expects, of chains none of whose ids is stored; and begins chains.
/// 3. `added`: adds the events of those chains, in the given order. The heads are locked before the first event gets its number, so the
///    numbers of a chain grow with it.
///
/// Returns a row for each chain, as [`AppendedRow`](super::AppendedRow). A wait for another transaction, which adds a head or an event with
/// the same id at this moment, ends the statement after 250 ms (55P03); an id that it has added in the meantime ends it too (23505).
pub const APPEND: &str = "WITH c AS MATERIALIZED (
        SELECT r.chain, r.agent_id, r.chain_epoch, r.seq, r.moves, encode(substr($2, r.pos, 16), 'hex')::UUID AS machine_id,
            substr($2, r.pos + 16, 32) AS expected, substr($2, r.pos + 48, 32) AS self,
            encode(substr($2, r.pos + 80, 16), 'hex')::UUID AS event_id
        FROM (SELECT set_config('lock_timeout', '250ms', TRUE) OFFSET 0) AS w CROSS JOIN
            jsonb_to_recordset($1::JSONB) AS r (chain BIGINT, pos INT, agent_id TEXT, chain_epoch BIGINT, seq BIGINT, moves BIGINT)),
    e AS MATERIALIZED (
        SELECT r.*, encode(substr($4, r.pos, 16), 'hex')::UUID AS event_id
        FROM jsonb_to_recordset($3::JSONB) AS r (chain BIGINT, pos INT, len INT, source_id BIGINT, event_type TEXT,
            ts_edge_ms BIGINT, consent_level TEXT, redacted BOOLEAN, chain_epoch BIGINT, seq BIGINT, begins BOOLEAN,
            received_at_ms BIGINT)),
    taken AS MATERIALIZED (
        SELECT DISTINCT e.chain FROM e
        CROSS JOIN LATERAL (SELECT 1 FROM events x WHERE x.event_id = e.event_id OFFSET 0) x),
    h AS MATERIALIZED (
        SELECT c.chain, h.* FROM c CROSS JOIN LATERAL (
            SELECT h.chain_epoch, h.seq, h.self, h.event_id, h.moves FROM chain_heads h
            WHERE h.machine_id = c.machine_id AND h.agent_id = c.agent_id FOR UPDATE SKIP LOCKED) h
        WHERE c.moves > 0),
    moved AS (
        INSERT INTO chain_heads (machine_id, agent_id, chain_epoch, seq, self, event_id, moves)
        SELECT c.machine_id, c.agent_id, c.chain_epoch, c.seq, c.self, c.event_id, c.moves + 1
        FROM c LEFT JOIN h ON h.chain = c.chain LEFT JOIN taken t ON t.chain = c.chain
        WHERE t.chain IS NULL AND (c.moves = 0 OR (h.moves = c.moves AND h.self = c.expected))
        ORDER BY c.machine_id, c.agent_id
        ON CONFLICT (machine_id, agent_id) DO UPDATE SET chain_epoch = excluded.chain_epoch, seq = excluded.seq,
            self = excluded.self, event_id = excluded.event_id, moves = excluded.moves
        WHERE chain_heads.moves = excluded.moves - 1 RETURNING machine_id, agent_id),
    won AS MATERIALIZED (
        SELECT c.chain FROM c JOIN moved m ON m.machine_id = c.machine_id AND m.agent_id = c.agent_id),
    added AS (
        INSERT INTO events (event_id, receipt_id, source_id, event_type, ts_edge_ms, consent_level, redacted,
            chain_epoch, seq, self, prev_event_id, received_at_ms, leaf_hash, canonical)
        SELECT e.event_id, encode(substr($4, e.pos + 16, 16), 'hex')::UUID, e.source_id, e.event_type, e.ts_edge_ms,
            e.consent_level, e.redacted, e.chain_epoch, e.seq, substr($4, e.pos + 32, 32),
            CASE WHEN e.begins THEN NULL ELSE encode(substr($4, e.pos + 96, 16), 'hex')::UUID END,
            e.received_at_ms, substr($4, e.pos + 64, 32), substr($4, e.pos + 112, e.len)
        FROM e JOIN won w ON w.chain = e.chain ORDER BY e.pos RETURNING id, leaf_hash),
    queued AS (INSERT INTO unsequenced (event, leaf_hash) SELECT id, leaf_hash FROM added)
    SELECT c.chain, w.chain IS NOT NULL AS won, t.chain IS NOT NULL AS taken, h.chain_epoch, h.seq, h.self, h.event_id, h.moves
    FROM c LEFT JOIN won w ON w.chain = c.chain LEFT JOIN taken t ON t.chain = c.chain LEFT JOIN h ON h.chain = c.chain";
/// The tree, the key, the lease (milliseconds left by the database's clock), whether events wait for a place, why nothing is signed, and
/// whether the server is a standby.
pub const STATE: &str =
    "SELECT t.size, t.root, t.vkey, k.name, k.seed, s.holder, s.halted, pg_is_in_recovery() AS recovering,
        s.held_until_ms - CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT) AS lease_ms,
        EXISTS (SELECT 1 FROM unsequenced) AS waiting
    FROM tree t CROSS JOIN sequencer s CROSS JOIN log_keys k WHERE k.retired_at IS NULL";
/// Acquires or renews the lease, unless another process has it; returns the fence. Parameters: holder, milliseconds.
pub const LEASE: &str = "UPDATE sequencer SET fence = CASE WHEN holder = $1 THEN fence ELSE fence + 1 END, holder = $1,
        held_until_ms = CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT) + $2
    WHERE id = 1 AND (holder IS NULL OR holder = $1
        OR held_until_ms < CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)) RETURNING fence";
/// `(event, leaf_hash)` of at most `$1` events without a place, in the order of commits.
pub const WAITING: &str = "SELECT event, leaf_hash FROM unsequenced ORDER BY event LIMIT $1";
/// Assigns places to events (`$1`: their ids), from leaf `$2` on.
pub const PLACE: &str = "WITH r AS (SELECT event::BIGINT AS event, place - 1 AS place
        FROM jsonb_array_elements_text($1::JSONB) WITH ORDINALITY AS t (event, place)),
    gone AS (DELETE FROM unsequenced u USING r WHERE u.event = r.event)
    INSERT INTO leaves (event, leaf_index) SELECT event, $2 + place FROM r";
/// Inserts or updates tiles.
pub const TILES_PUT: &str = "INSERT INTO tiles (level, place, hashes)
    SELECT level, place, substr($2, pos, len)
    FROM jsonb_to_recordset($1::JSONB) AS r (pos INT, len INT, level BIGINT, place BIGINT)
    ON CONFLICT (level, place) DO UPDATE SET hashes = excluded.hashes";
/// Stores the grown tree, if the stored one is still the one that was read and the lease is still held. Parameters: size, root, checkpoint,
/// vkey, `signed_at`; size before; holder, fence; root before, vkey before.
pub const TREE_GROW: &str = "UPDATE tree SET size = $1, root = $2, checkpoint = $3, vkey = $4, signed_at = $5
    WHERE id = 1 AND size = $6 AND root = $9 AND vkey = $10
        AND EXISTS (SELECT 1 FROM sequencer WHERE id = 1 AND holder = $7 AND fence = $8 AND halted IS NULL)";

/// Releases the lease of a holder.
pub const LEASE_END: &str = "UPDATE sequencer SET holder = NULL WHERE id = 1 AND holder = $1";
