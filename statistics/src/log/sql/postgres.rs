//! Statements that only PostgreSQL executes: appending and sequencing by several processes. Those about many rows take the parameters of
//! [`Rows`](super::Rows).

/// The heads of some chains, locked. Every statement locks them in the same order, so that groups cannot deadlock.
pub const HEADS: &str = "SELECT h.* FROM jsonb_to_recordset($1::JSONB) AS r (pos INT, agent_id TEXT)
    CROSS JOIN LATERAL (SELECT h.machine_id, h.agent_id, h.chain_epoch, h.seq, h.self, h.event_id, h.moves
        FROM chain_heads h WHERE h.machine_id = encode(substr($2, r.pos, 16), 'hex')::UUID AND h.agent_id = r.agent_id
        FOR UPDATE) h";
/// Those of some events that are stored already. `$1`: positions of the ids.
pub const KNOWN: &str = "SELECT e.* FROM jsonb_array_elements_text($1::JSONB) AS r (pos)
    CROSS JOIN LATERAL (SELECT e.event_id, e.receipt_id, e.self FROM events e
        WHERE e.event_id = encode(substr($2, r.pos::INT, 16), 'hex')::UUID OFFSET 0) e";
/// Adds the sources that are new.
pub const SOURCES_ADD: &str = "INSERT INTO sources (machine_id, agent_id, user_cuid, lane)
    SELECT encode(substr($2, pos, 16), 'hex')::UUID, agent_id, user_cuid, lane
    FROM jsonb_to_recordset($1::JSONB) AS r (pos INT, agent_id TEXT, user_cuid TEXT, lane TEXT)
    ORDER BY 1, 2, 3, 4 ON CONFLICT DO NOTHING";
/// The numbers of sources.
pub const SOURCES: &str = "SELECT s.id, s.machine_id, s.agent_id, s.user_cuid, s.lane
    FROM jsonb_to_recordset($1::JSONB) AS r (pos INT, agent_id TEXT, user_cuid TEXT, lane TEXT)
    CROSS JOIN LATERAL (SELECT * FROM sources s WHERE s.machine_id = encode(substr($2, r.pos, 16), 'hex')::UUID
        AND s.agent_id = r.agent_id AND s.user_cuid = r.user_cuid AND s.lane = r.lane OFFSET 0) s";
/// Adds events in the given order, and queues them for sequencing.
pub const EVENTS_ADD: &str =
    "WITH r AS (SELECT * FROM jsonb_to_recordset($1::JSONB) AS r (pos INT, len INT, source_id BIGINT,
        event_type TEXT, ts_edge_ms BIGINT, consent_level TEXT, redacted BOOLEAN, chain_epoch BIGINT, seq BIGINT,
        begins BOOLEAN, received_at_ms BIGINT)), added AS (
    INSERT INTO events (event_id, receipt_id, source_id, event_type, ts_edge_ms, consent_level, redacted,
        chain_epoch, seq, self, prev_event_id, received_at_ms, leaf_hash, canonical)
    SELECT encode(substr($2, pos, 16), 'hex')::UUID, encode(substr($2, pos + 16, 16), 'hex')::UUID,
        source_id, event_type, ts_edge_ms, consent_level, redacted, chain_epoch, seq, substr($2, pos + 32, 32),
        CASE WHEN begins THEN NULL ELSE encode(substr($2, pos + 96, 16), 'hex')::UUID END,
        received_at_ms, substr($2, pos + 64, 32), substr($2, pos + 112, len) FROM r
    ORDER BY pos RETURNING id, leaf_hash) INSERT INTO unsequenced (event, leaf_hash) SELECT id, leaf_hash FROM added";
/// Updates or inserts heads. A head that another process has updated is not counted in the affected rows.
pub const HEADS_MOVE: &str = "WITH r AS (SELECT * FROM jsonb_to_recordset($1::JSONB) AS r (pos INT, agent_id TEXT,
        chain_epoch BIGINT, seq BIGINT, moves BIGINT))
    INSERT INTO chain_heads (machine_id, agent_id, chain_epoch, seq, self, event_id, moves)
    SELECT encode(substr($2, pos, 16), 'hex')::UUID, agent_id, chain_epoch, seq, substr($2, pos + 16, 32),
        encode(substr($2, pos + 48, 16), 'hex')::UUID, moves FROM r WHERE true
    ON CONFLICT (machine_id, agent_id) DO UPDATE SET chain_epoch = excluded.chain_epoch, seq = excluded.seq,
        self = excluded.self, event_id = excluded.event_id, moves = excluded.moves
    WHERE chain_heads.moves = excluded.moves - 1";
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
