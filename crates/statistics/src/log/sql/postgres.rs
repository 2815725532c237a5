//! Statements that only PostgreSQL executes: appending and sequencing by several processes.
//!
//! Many rows are passed as one array per column, from a separate subquery (`p`). If the array is an argument of `unnest`, the planner sees
//! its length and plans most calls again, which takes longer than the statement.

use store::joined;

use super::PROOF_COLUMNS;

/// Heads of chains, stored events, and numbers of sources, from one snapshot and without locks, as [`FoundRow`](super::FoundRow); `chain`
/// is the index in the arrays, from 0. Parameters: computers and agents of chains; ids of events; computers, agents, identities and lanes
/// of sources.
pub const READ: &str = "SELECT h.chain, NULL::BIGINT AS source, NULL::UUID AS receipt_id, h.chain_epoch, h.seq, h.self, h.event_id, h.moves
    FROM (SELECT r.place - 1 AS chain, h.*
        FROM (SELECT $1::UUID[] AS machine_id, $2::TEXT[] AS agent_id OFFSET 0) p
        CROSS JOIN LATERAL unnest(p.machine_id, p.agent_id) WITH ORDINALITY AS r (machine_id, agent_id, place)
        CROSS JOIN LATERAL (SELECT h.chain_epoch, h.seq, h.self, h.event_id, h.moves FROM chain_heads h
            WHERE h.machine_id = r.machine_id AND h.agent_id = r.agent_id OFFSET 0) h) h
    UNION ALL SELECT NULL, NULL, e.receipt_id, NULL, NULL, e.self, e.event_id, NULL
    FROM (SELECT $3::UUID[] AS event_id OFFSET 0) p CROSS JOIN LATERAL unnest(p.event_id) AS r (event_id)
    CROSS JOIN LATERAL (SELECT e.event_id, e.receipt_id, e.self FROM events e WHERE e.event_id = r.event_id OFFSET 0) e
    UNION ALL SELECT r.place - 1, s.id, NULL, NULL, NULL, NULL, NULL, NULL
    FROM (SELECT $4::UUID[] AS machine_id, $5::TEXT[] AS agent_id, $6::TEXT[] AS user_cuid, $7::TEXT[] AS lane OFFSET 0) p
    CROSS JOIN LATERAL unnest(p.machine_id, p.agent_id, p.user_cuid, p.lane) WITH ORDINALITY
        AS r (machine_id, agent_id, user_cuid, lane, place)
    CROSS JOIN LATERAL (SELECT s.id FROM sources s WHERE s.machine_id = r.machine_id
        AND s.agent_id = r.agent_id AND s.user_cuid = r.user_cuid AND s.lane = r.lane OFFSET 0) s";
/// `(place, id)` of sources, by their index in the arrays, from 0. New sources are added. A source that another process adds at the same
/// time is not returned. Parameters: computers, agents, identities, lanes.
pub const SOURCES: &str = "WITH r AS MATERIALIZED (
        SELECT r.* FROM (SELECT set_config('lock_timeout', '250ms', TRUE) AS waits,
            $1::UUID[] AS machine_id, $2::TEXT[] AS agent_id, $3::TEXT[] AS user_cuid, $4::TEXT[] AS lane OFFSET 0) p
        CROSS JOIN LATERAL unnest(p.machine_id, p.agent_id, p.user_cuid, p.lane) WITH ORDINALITY
            AS r (machine_id, agent_id, user_cuid, lane, place)),
    known AS MATERIALIZED (
        SELECT r.place, s.id FROM r CROSS JOIN LATERAL (SELECT s.id FROM sources s WHERE s.machine_id = r.machine_id
            AND s.agent_id = r.agent_id AND s.user_cuid = r.user_cuid AND s.lane = r.lane OFFSET 0) s),
    added AS (
        INSERT INTO sources (machine_id, agent_id, user_cuid, lane)
        SELECT machine_id, agent_id, user_cuid, lane FROM r WHERE place NOT IN (SELECT place FROM known)
        ORDER BY 1, 2, 3, 4 ON CONFLICT DO NOTHING RETURNING id, machine_id, agent_id, user_cuid, lane)
    SELECT place - 1, id FROM known
    UNION ALL SELECT r.place - 1, a.id FROM r JOIN added a ON a.machine_id = r.machine_id AND a.agent_id = r.agent_id
        AND a.user_cuid = r.user_cuid AND a.lane = r.lane";
/// Appends the events of some chains and queues them for sequencing: for each chain either all events and the head, or nothing. Parameters:
/// the columns of [`ChainColumns`](super::ChainColumns), then of [`EventColumns`](super::EventColumns).
///
/// 1. `h`: locks the unlocked heads. A head that a running transaction has locked is absent.
/// 2. `moved`: moves the heads that equal the expected ones, for chains without a stored event id; inserts the heads of new chains.
/// 3. `added`: adds the events of the moved chains, in the given order. The heads are locked before the first event gets its number, so the
///    numbers of a chain ascend, as long as no session takes several numbers from the sequence at once.
/// 4. `queued`: queues each event with the number of its predecessor in the chain, in any epoch, which orders the places.
///
/// Returns a row for each chain, as [`AppendedRow`](super::AppendedRow). If a concurrent transaction adds the same head or event id, the
/// statement fails after a wait of 250 ms (55P03), or when that transaction commits (23505).
pub const APPEND: &str = "WITH c AS MATERIALIZED (
        SELECT r.*, r.place - 1 AS chain FROM (SELECT set_config('lock_timeout', '250ms', TRUE) AS waits,
            $1::UUID[] AS machine_id, $2::TEXT[] AS agent_id, $3::BIGINT[] AS moves, $4::BYTEA[] AS expected,
            $5::BIGINT[] AS chain_epoch, $6::BIGINT[] AS seq, $7::BYTEA[] AS self, $8::UUID[] AS event_id OFFSET 0) p
        CROSS JOIN LATERAL unnest(p.machine_id, p.agent_id, p.moves, p.expected, p.chain_epoch, p.seq, p.self, p.event_id)
            WITH ORDINALITY AS r (machine_id, agent_id, moves, expected, chain_epoch, seq, self, event_id, place)),
    e AS MATERIALIZED (
        SELECT r.* FROM (SELECT $9::BIGINT[] AS chain, $10::UUID[] AS event_id, $11::UUID[] AS receipt_id, $12::BIGINT[] AS source_id,
            $13::TEXT[] AS event_type, $14::BIGINT[] AS ts_edge_ms, $15::TEXT[] AS consent_level, $16::BOOLEAN[] AS redacted,
            $17::BIGINT[] AS chain_epoch, $18::BIGINT[] AS seq, $19::BYTEA[] AS self, $20::UUID[] AS prev_event_id,
            $21::BIGINT[] AS received_at_ms, $22::BYTEA[] AS leaf_hash, $23::BYTEA[] AS canonical OFFSET 0) p
        CROSS JOIN LATERAL unnest(p.chain, p.event_id, p.receipt_id, p.source_id, p.event_type, p.ts_edge_ms, p.consent_level, p.redacted,
            p.chain_epoch, p.seq, p.self, p.prev_event_id, p.received_at_ms, p.leaf_hash, p.canonical) WITH ORDINALITY
            AS r (chain, event_id, receipt_id, source_id, event_type, ts_edge_ms, consent_level, redacted,
                chain_epoch, seq, self, prev_event_id, received_at_ms, leaf_hash, canonical, place)),
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
        SELECT e.event_id, e.receipt_id, e.source_id, e.event_type, e.ts_edge_ms, e.consent_level, e.redacted,
            e.chain_epoch, e.seq, e.self, e.prev_event_id, e.received_at_ms, e.leaf_hash, e.canonical
        FROM e JOIN won w ON w.chain = e.chain ORDER BY e.place RETURNING id, event_id, leaf_hash),
    queued AS (
        INSERT INTO unsequenced (event, leaf_hash, follows)
        SELECT a.id, a.leaf_hash, COALESCE(lag(a.id) OVER (PARTITION BY e.chain ORDER BY e.place), h.found_number)
        FROM added a JOIN e ON e.event_id = a.event_id JOIN h ON h.chain = e.chain)
    SELECT h.chain, w.chain IS NOT NULL AS won, h.taken, h.found_epoch AS chain_epoch, h.found_seq AS seq, h.found_self AS self,
        h.found_event AS event_id, h.found_moves AS moves
    FROM h LEFT JOIN won w ON w.chain = h.chain";
/// The tree, the key, the lease, the time of the database's clock, whether events wait for a place, the reason of a halt, and whether the
/// server is a standby.
pub const STATE: &str =
    "SELECT t.size, t.root, t.vkey, k.name, k.seed, s.holder, s.halted, pg_is_in_recovery() AS recovering,
        s.held_until_ms, CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT) AS now_ms,
        EXISTS (SELECT 1 FROM unsequenced) AS waiting
    FROM tree t CROSS JOIN sequencer s CROSS JOIN log_keys k WHERE k.retired_at IS NULL";
/// Acquires or renews the lease, unless another process has it; returns the fence. Parameters: holder, milliseconds, and the time of
/// [`STATE`], because Citus accepts no volatile function in an update of a distributed table.
pub const LEASE: &str = "UPDATE sequencer SET fence = CASE WHEN holder = $1 THEN fence ELSE fence + 1 END, holder = $1,
        held_until_ms = $3 + $2
    WHERE id = 1 AND (holder IS NULL OR holder = $1 OR held_until_ms < $3) RETURNING fence";
/// At most `$1` events without a place, with the smallest numbers, as [`WaitingEvent`](super::super::postgres::WaitingEvent).
pub const WAITING: &str = "SELECT event, leaf_hash, follows FROM unsequenced ORDER BY event LIMIT $1";
/// The events without a place among some events (`$1`), and their predecessors in their chains; at most `$2`, each with its predecessor.
/// `newest` has one event of each chain, so no event is read twice.
pub const PREDECESSORS: &str = "WITH RECURSIVE newest AS (
        SELECT DISTINCT ON (s.machine_id, s.agent_id) e.id FROM (SELECT $1::BIGINT[] AS event OFFSET 0) p
        CROSS JOIN LATERAL unnest(p.event) AS r (event)
        CROSS JOIN LATERAL (SELECT e.id, e.source_id, e.chain_epoch, e.seq FROM events e WHERE e.id = r.event OFFSET 0) e
        CROSS JOIN LATERAL (SELECT s.machine_id, s.agent_id FROM sources s WHERE s.id = e.source_id OFFSET 0) s
        ORDER BY s.machine_id, s.agent_id, e.chain_epoch DESC, e.seq DESC),
    back AS (
        SELECT u.event, u.leaf_hash, u.follows, 0 AS steps FROM newest n
        CROSS JOIN LATERAL (SELECT u.* FROM unsequenced u WHERE u.event = n.id OFFSET 0) u
        UNION ALL SELECT u.event, u.leaf_hash, u.follows, b.steps + 1 FROM back b
        CROSS JOIN LATERAL (SELECT u.* FROM unsequenced u WHERE u.event = b.follows OFFSET 0) u)
    SELECT event, leaf_hash, follows FROM back ORDER BY steps DESC LIMIT $2";
/// Assigns places to events (`$1`: their ids), from leaf `$2` on.
pub const PLACE: &str = "WITH r AS (
        SELECT t.event, t.place - 1 AS place FROM (SELECT $1::BIGINT[] AS event OFFSET 0) p
        CROSS JOIN LATERAL unnest(p.event) WITH ORDINALITY AS t (event, place)),
    gone AS (DELETE FROM unsequenced u USING r WHERE u.event = r.event)
    INSERT INTO leaves (event, leaf_index) SELECT event, $2 + place FROM r";
/// Inserts or updates tiles. Parameters: levels, places, hashes.
pub const TILES_PUT: &str = "INSERT INTO tiles (level, place, hashes)
    SELECT level, place, hashes FROM unnest($1::BIGINT[], $2::BIGINT[], $3::BYTEA[]) AS r (level, place, hashes)
    ON CONFLICT (level, place) DO UPDATE SET hashes = excluded.hashes";
/// Stores the grown tree, if the stored tree is unchanged since it was read and the lease is still held. Parameters: size, root,
/// checkpoint, vkey, `signed_at`; size before; holder, fence; root before, vkey before.
pub const TREE_GROW: &str = "UPDATE tree SET size = $1, root = $2, checkpoint = $3, vkey = $4, signed_at = $5
    WHERE id = 1 AND size = $6 AND root = $9 AND vkey = $10
        AND EXISTS (SELECT 1 FROM sequencer WHERE id = 1 AND holder = $7 AND fence = $8 AND halted IS NULL)";

/// Releases the lease of a holder.
pub const LEASE_END: &str = "UPDATE sequencer SET holder = NULL WHERE id = 1 AND holder = $1";

/// `(name, cache)` of the sequence of the numbers of events.
pub const SEQUENCE: &str = "SELECT pg_get_serial_sequence('events', 'id'), seqcache FROM pg_sequence
    WHERE seqrelid = CAST(pg_get_serial_sequence('events', 'id') AS REGCLASS)";

/// The version of Citus, if it is installed.
pub const CITUS: &str = "SELECT extversion FROM pg_extension WHERE extname = 'citus'";

/// Whether Citus has distributed the table of events; requires [`CITUS`].
pub const IS_DISTRIBUTED: &str =
    "SELECT EXISTS (SELECT 1 FROM pg_dist_partition WHERE logicalrelid = CAST('events' AS REGCLASS))";

/// Events from a place on, in the order of the tree. Parameters: place, maximum number of events.
pub const EVENTS_PLACED: &str = joined!(
    "SELECT e.id, e.source_id, ",
    PROOF_COLUMNS,
    "l.leaf_index FROM leaves l JOIN events e ON e.id = l.event JOIN sources s ON s.id = e.source_id
    WHERE l.leaf_index >= $1 ORDER BY l.leaf_index LIMIT $2"
);
/// Events by their numbers (`$1`), in that order.
pub const EVENTS_OF: &str = joined!(
    "SELECT e.id, e.source_id, ",
    PROOF_COLUMNS,
    "(SELECT l.leaf_index FROM leaves l WHERE l.event = e.id) AS leaf_index
    FROM (SELECT $1::BIGINT[] AS event OFFSET 0) p CROSS JOIN LATERAL unnest(p.event) WITH ORDINALITY AS r (event, place)
    CROSS JOIN LATERAL (SELECT e.* FROM events e WHERE e.id = r.event OFFSET 0) e JOIN sources s ON s.id = e.source_id ORDER BY r.place"
);
/// `(leaf_index, event, leaf_hash, follows)` of the events from place `$1` on, and of all events that wait for a place, in one snapshot.
pub const REST: &str = "SELECT l.leaf_index, l.event, CAST('' AS BYTEA) AS leaf_hash, CAST(NULL AS BIGINT) AS follows
    FROM leaves l WHERE l.leaf_index >= $1
    UNION ALL SELECT NULL, u.event, u.leaf_hash, u.follows FROM unsequenced u ORDER BY 1";
/// The id of an event that neither has a place nor waits for one.
pub const UNQUEUED: &str =
    "SELECT e.event_id FROM events e WHERE NOT EXISTS (SELECT 1 FROM leaves l WHERE l.event = e.id)
    AND NOT EXISTS (SELECT 1 FROM unsequenced u WHERE u.event = e.id) LIMIT 1";
