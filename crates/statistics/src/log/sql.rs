//! The SQL of the log.
//!
//! Statements of the writer of an SQLite file are in `writer/`, and statements that only PostgreSQL executes in [`postgres`].
//!
//! Many values are passed as one parameter, independent of their number, so each statement has one text and is prepared once. Statements of
//! both databases take a JSON array, which each dialect unfolds with its own functions; PostgreSQL-only statements take arrays.

pub mod postgres;

use serde::Serialize;
use store::pool::Query;
use store::{Pool, joined};
use uuid::Uuid;

use super::error::LogError;

/// Converts a number of an envelope or of a tree. Numbers of envelopes are within ±(2^53 − 1), so they fit.
pub fn whole(number: impl TryInto<i64>) -> Result<i64, LogError> {
    number.try_into().map_err(|_| LogError::Corrupt("a number beyond 2^63 - 1"))
}

/// The chains of [`postgres::APPEND`], one array for each column.
#[derive(Debug, Default)]
pub struct ChainColumns<'a> {
    pub machine_id: Vec<Uuid>,
    pub agent_id: Vec<&'a str>,
    /// Number of moves of the head before the group, 0 for a new chain.
    pub moves: Vec<i64>,
    /// Hash of the head before the group; unused for a new chain.
    pub expected: Vec<[u8; 32]>,
    /// The head after the group.
    pub chain_epoch: Vec<i64>,
    pub seq: Vec<i64>,
    pub self_hash: Vec<[u8; 32]>,
    pub event_id: Vec<Uuid>,
}

/// The events of [`postgres::APPEND`], one array for each column.
#[derive(Debug, Default)]
pub struct EventColumns<'a> {
    /// Index of the chain in [`ChainColumns`], from 0.
    pub chain: Vec<i64>,
    pub event_id: Vec<Uuid>,
    pub receipt_id: Vec<Uuid>,
    pub source_id: Vec<i64>,
    pub event_type: Vec<&'a str>,
    pub ts_edge_ms: Vec<i64>,
    pub consent_level: Vec<&'a str>,
    pub redacted: Vec<bool>,
    pub chain_epoch: Vec<i64>,
    pub seq: Vec<i64>,
    pub self_hash: Vec<[u8; 32]>,
    pub prev_event_id: Vec<Option<Uuid>>,
    pub received_at_ms: Vec<i64>,
    pub leaf_hash: Vec<[u8; 32]>,
    pub canonical: Vec<&'a [u8]>,
}

impl<'a> ChainColumns<'a> {
    /// Binds the columns in field order.
    pub fn bind(self, query: Query<'a>) -> Query<'a> {
        query
            .bind(self.machine_id)
            .bind(self.agent_id)
            .bind(self.moves)
            .bind(self.expected)
            .bind(self.chain_epoch)
            .bind(self.seq)
            .bind(self.self_hash)
            .bind(self.event_id)
    }
}

impl<'a> EventColumns<'a> {
    /// Binds the columns in field order.
    pub fn bind(self, query: Query<'a>) -> Query<'a> {
        query
            .bind(self.chain)
            .bind(self.event_id)
            .bind(self.receipt_id)
            .bind(self.source_id)
            .bind(self.event_type)
            .bind(self.ts_edge_ms)
            .bind(self.consent_level)
            .bind(self.redacted)
            .bind(self.chain_epoch)
            .bind(self.seq)
            .bind(self.self_hash)
            .bind(self.prev_event_id)
            .bind(self.received_at_ms)
            .bind(self.leaf_hash)
            .bind(self.canonical)
    }
}

/// A tile that [`Dialect::tiles`] reads.
#[derive(Debug, Serialize)]
pub struct TileName {
    pub level: u8,
    pub place: u64,
}

/// `(machine_id, agent_id, chain_epoch, seq, self, event_id, moves)` of [`HEADS_ALL`].
pub type FoundHead = (Uuid, String, i64, i64, Vec<u8>, Uuid, i64);
/// `(level, place, hashes)` of [`Dialect::tiles`].
pub type FoundTile = (i64, i64, Vec<u8>);

store::row! {
    /// The columns of a head of a chain, all null in a row without one.
    #[derive(Debug)]
    pub struct HeadColumns {
        pub chain_epoch: Option<i64>,
        pub seq: Option<i64>,
        pub self_hash as "self": Option<Vec<u8>>,
        pub event_id: Option<Uuid>,
        pub moves: Option<i64>,
    }
}

store::row! {
    /// A row of [`postgres::READ`]: a head with its `chain`, a stored event (`event_id`, `receipt_id`, `self`), or a source (`chain`: its place,
    /// `source`: its number).
    #[derive(Debug)]
    pub struct FoundRow {
        pub chain: Option<i64>,
        pub source: Option<i64>,
        pub receipt_id: Option<Uuid>,
        pub head: HeadColumns,
    }
}

store::row! {
    /// A row of [`postgres::APPEND`]: whether the events of a chain are stored, whether an event id was stored before, and the head before
    /// the group; null for a new chain and for a head that another transaction has locked.
    #[derive(Debug)]
    pub struct AppendedRow {
        pub chain: i64,
        pub won: bool,
        pub taken: bool,
        pub head: HeadColumns,
    }
}

store::row! {
    /// A row of [`postgres::STATE`].
    #[derive(Debug)]
    pub struct State {
        pub size: i64,
        pub root: Vec<u8>,
        pub vkey: String,
        pub name: String,
        pub seed: Vec<u8>,
        pub holder: Option<Uuid>,
        pub halted: Option<String>,
        pub recovering: bool,
        pub held_until_ms: i64,
        pub now_ms: i64,
        pub waiting: bool,
    }
}

store::row! {
    /// A row of a page of activity.
    #[derive(Debug)]
    pub struct ActivityRow {
        pub id: i64,
        pub event_id: Uuid,
        pub event_type: String,
        pub lane: String,
        pub agent_id: String,
        pub machine_id: Uuid,
        pub ts_edge_ms: i64,
        pub received_at_ms: i64,
        pub consent_level: String,
        pub redacted: bool,
        pub chain_epoch: i64,
        pub seq: i64,
        pub receipt_id: Uuid,
        /// Canonical bytes of an event of the service's own agent, which may report on a computer.
        pub report: Option<Vec<u8>>,
        /// Number of canonical bytes.
        pub bytes: i64,
        /// 1 if a signed checkpoint covers the event.
        pub placed: i64,
    }
}

store::row! {
    /// The columns of an event that its proof needs.
    #[derive(Debug)]
    pub struct ProofRow {
        pub event_id: Uuid,
        pub receipt_id: Uuid,
        pub machine_id: Uuid,
        pub agent_id: String,
        pub chain_epoch: i64,
        pub seq: i64,
        pub self_hash as "self": Vec<u8>,
        pub prev_event_id: Option<Uuid>,
        pub received_at_ms: i64,
        pub leaf_hash: Vec<u8>,
        pub canonical: Vec<u8>,
        pub leaf_index: Option<i64>,
    }
}

store::row! {
    /// The columns of an event that an audit needs, with its number.
    #[derive(Debug)]
    pub struct AuditRow {
        pub id: i64,
        pub source_id: i64,
        pub proof: ProofRow,
    }
}

/// All heads, as [`FoundHead`].
pub const HEADS_ALL: &str = "SELECT machine_id, agent_id, chain_epoch, seq, self, event_id, moves FROM chain_heads";
/// `(vkey, active_from, retired_at)`, oldest first.
pub const KEYS: &str = "SELECT vkey, active_from, retired_at FROM log_keys ORDER BY active_from, vkey";
/// The name of the key in use.
pub const KEY_ACTIVE: &str = "SELECT name FROM log_keys WHERE retired_at IS NULL";
/// Adds a key, unless one is in use. Parameters: vkey, name, seed, `active_from`.
pub const KEY_ADD: &str = "INSERT INTO log_keys (vkey, name, seed, active_from) VALUES ($1, $2, $3, $4)
    ON CONFLICT DO NOTHING";
/// Adds the empty tree. Parameters: root, checkpoint, vkey, `signed_at`.
pub const TREE_BEGIN: &str =
    "INSERT INTO tree (id, size, root, checkpoint, vkey, signed_at) VALUES (1, 0, $1, $2, $3, $4)";
/// Number of leaves of the signed tree.
pub const TREE_SIZE: &str = "SELECT size FROM tree WHERE id = 1";
/// The number of the last event in activity, heads and the runs of ids, on SQLite.
pub const INDEXED: &str = "SELECT events FROM indexed WHERE id = 1";
/// `(source_id, received_at_ms, id)` of the index of activity. Parameter: the number of the last event.
pub const ACTIVITY: &str = "SELECT source_id, received_at_ms, id FROM activity WHERE id <= $1";
/// `(first_id, entries)` of the chunks of finished runs.
pub const CHUNKS: &str = "SELECT f.first_id, c.entries FROM id_fences f JOIN id_chunks c ON c.chunk = f.chunk
    WHERE (SELECT r.state FROM id_runs r WHERE r.run = f.run) = 'whole'";
/// The statements that differ between the databases.
#[derive(Debug)]
pub struct Dialect {
    /// `(leaf_index, leaf_hash)` in the order of the tree: first place, leaves at most.
    pub leaves_from: &'static str,
    /// Tiles by level and place (JSON array of `{level, place}`), as [`FoundTile`].
    pub tiles: &'static str,
    /// Numbers of recorders' sources. Parameters: recorders (JSON array of `{machine, identity}`); lane or null; agent kind or null.
    pub sources_of: &'static str,
    /// A page of activity. Parameters: sources (JSON array of numbers), since, before (`$3, $4`), limit; on SQLite also the unindexed
    /// events, and the number after which further unindexed events are read.
    pub activity: &'static str,
    /// `(id, canonical)` of events. Parameter: numbers (JSON array).
    pub canonical: &'static str,
    /// `(machine_id, user_cuid, day, memory, retrospectives)` of leaves: the lane and the event type that count; first leaf, end;
    /// milliseconds of a day.
    pub usage: &'static str,
    /// `(memory, retrospectives)` beyond the counted leaves. Parameters: the lane and the event type that count; leaves; maximum number of
    /// events; sources (JSON array of numbers); received from, until.
    pub usage_beyond: &'static str,
    /// `(size, signed_at, unplaced, unindexed)`: the signed tree, and the numbers of events without a place and outside the indexes.
    pub status: &'static str,
    /// Id of the installation that the log belongs to.
    pub installation: &'static str,
    /// Stores the id of the installation, unless there is one.
    pub installation_add: &'static str,
}

impl Dialect {
    /// The statements of a database.
    pub fn of(pool: &Pool) -> &'static Self {
        if pool.is_postgres() { &POSTGRES } else { &SQLITE }
    }
}

/// The columns of [`ActivityRow`], up to the condition of `placed`, which [`PLACED`] ends. The length of a value is read without the value.
const ACTIVITY_COLUMNS: &str =
    "e.id, e.event_id, e.event_type, s.lane, s.agent_id, s.machine_id, e.ts_edge_ms, e.received_at_ms, e.consent_level,
    e.redacted, e.chain_epoch, e.seq, e.receipt_id,
    CASE WHEN s.agent_id = 'svc-control-plane' THEN e.canonical END AS report, CAST(length(e.canonical) AS BIGINT) AS bytes,
    CAST(CASE WHEN ";

const PLACED: &str = " THEN 1 ELSE 0 END AS BIGINT) AS placed";

/// The columns of [`ProofRow`], up to the expression of its leaf index.
const PROOF_COLUMNS: &str =
    "e.event_id, e.receipt_id, s.machine_id, s.agent_id, e.chain_epoch, e.seq, e.self, e.prev_event_id,
    e.received_at_ms, e.leaf_hash, e.canonical, ";

/// Events of an SQLite file after a number, in ascending order, which is the order of every chain and of the tree. Parameters: number,
/// maximum number of events. Rows have no gap, so the event with id n has place n - 1 once the tree is that large.
pub const EVENTS_AFTER: &str = joined!(
    "SELECT e.id, e.source_id, ",
    PROOF_COLUMNS,
    "CASE WHEN e.id <= (SELECT size FROM tree WHERE id = 1) THEN e.id - 1 END AS leaf_index
    FROM events e JOIN sources s ON s.id = e.source_id WHERE e.id > $1 ORDER BY e.id LIMIT $2"
);

/// Sums of events `e` by computer and day: the text before and after the selection of events. Days without usage are left out.
const USAGE: [&str; 2] = [
    "SELECT s.machine_id, s.user_cuid, e.received_at_ms / $5 AS day,
        SUM(CASE WHEN s.lane = $1 THEN 1 ELSE 0 END) AS memory,
        SUM(CASE WHEN e.event_type = $2 THEN 1 ELSE 0 END) AS retrospectives
    FROM ",
    " JOIN sources s ON s.id = e.source_id WHERE s.lane = $1 OR e.event_type = $2
    GROUP BY s.machine_id, s.user_cuid, e.received_at_ms / $5",
];

/// The sum of events `e` of some sources: the text before the selection of events, before the selection of sources, and after it.
const USAGE_BEYOND: [&str; 3] = [
    "SELECT CAST(COALESCE(SUM(CASE WHEN s.lane = $1 THEN 1 ELSE 0 END), 0) AS BIGINT),
        CAST(COALESCE(SUM(CASE WHEN e.event_type = $2 THEN 1 ELSE 0 END), 0) AS BIGINT)
    FROM ",
    " JOIN sources s ON s.id = e.source_id WHERE e.source_id IN (",
    ") AND e.received_at_ms >= $6 AND e.received_at_ms < $7",
];

static SQLITE: Dialect = Dialect {
    leaves_from: "SELECT id - 1, leaf_hash FROM events
        WHERE id > $1 AND id <= (SELECT size FROM tree WHERE id = 1) ORDER BY id LIMIT $2",
    tiles: "SELECT t.level, t.place, t.hashes FROM json_each($1) r CROSS JOIN tiles t
        WHERE t.level = r.value ->> 'level' AND t.place = r.value ->> 'place'",
    // Selects by computer: any client can name an identity, any number of times.
    sources_of: "SELECT s.id FROM json_each($1) r
        CROSS JOIN sources s ON s.machine_id = unhex(r.value ->> 'machine', '-') AND +s.user_cuid = r.value ->> 'identity'
        WHERE ($2 IS NULL OR s.lane = $2) AND ($3 IS NULL OR s.agent_id = $3)",
    activity: SQLITE_ACTIVITY,
    canonical: "SELECT e.id, e.canonical FROM json_each($1) r CROSS JOIN events e ON e.id = r.value",
    usage: joined!(USAGE[0], "(SELECT * FROM events WHERE id > $3 AND id <= $4) e", USAGE[1]),
    usage_beyond: joined!(
        USAGE_BEYOND[0],
        "(SELECT * FROM events WHERE id > $3 AND id <= $3 + $4) e",
        USAGE_BEYOND[1],
        "SELECT value FROM json_each($5)",
        USAGE_BEYOND[2]
    ),
    // Ids have no gap, so no row is counted.
    status: "SELECT size, signed_at, (SELECT COALESCE(MAX(id), 0) FROM events) - size AS unplaced,
            MAX(0, (SELECT COALESCE(MAX(id), 0) FROM events) - (SELECT events FROM indexed WHERE id = 1)) AS unindexed
        FROM tree WHERE id = 1",
    installation: "SELECT installation_id FROM installation WHERE id = 1",
    installation_add: "INSERT INTO installation (id, installation_id) VALUES (1, $1) ON CONFLICT DO NOTHING",
};

/// Lookups of many keys are written as one lookup per key (`LATERAL`, with `OFFSET 0` as an optimisation fence): a plan that was cached
/// while the tables were empty would otherwise always scan them.
static POSTGRES: Dialect = Dialect {
    leaves_from: "SELECT l.leaf_index, e.leaf_hash FROM leaves l JOIN events e ON e.id = l.event
        WHERE l.leaf_index >= $1 ORDER BY l.leaf_index LIMIT $2",
    tiles: "SELECT t.* FROM jsonb_to_recordset($1::JSONB) AS r (level BIGINT, place BIGINT)
        CROSS JOIN LATERAL (SELECT t.level, t.place, t.hashes FROM tiles t
            WHERE t.level = r.level AND t.place = r.place OFFSET 0) t",
    sources_of: "SELECT s.id FROM jsonb_to_recordset($1::JSONB) AS r (machine UUID, identity TEXT)
        CROSS JOIN LATERAL (SELECT id, lane, agent_id FROM sources
            WHERE machine_id = r.machine AND user_cuid = r.identity OFFSET 0) s
        WHERE (CAST($2 AS TEXT) IS NULL OR s.lane = $2) AND (CAST($3 AS TEXT) IS NULL OR s.agent_id = $3)",
    activity: POSTGRES_ACTIVITY,
    canonical: "SELECT e.id, e.canonical FROM jsonb_array_elements_text($1::JSONB) AS r (id)
        CROSS JOIN LATERAL (SELECT id, canonical FROM events WHERE id = r.id::BIGINT OFFSET 0) e",
    usage: joined!(
        USAGE[0],
        "(SELECT * FROM leaves WHERE leaf_index >= $3 AND leaf_index < $4) l JOIN events e ON e.id = l.event",
        USAGE[1]
    ),
    usage_beyond: joined!(
        USAGE_BEYOND[0],
        "(SELECT event FROM leaves WHERE leaf_index >= $3 AND leaf_index < $3 + $4
            UNION ALL (SELECT event FROM unsequenced ORDER BY event LIMIT $4)) l JOIN events e ON e.id = l.event",
        USAGE_BEYOND[1],
        "SELECT jsonb_array_elements_text($5::JSONB)::BIGINT",
        USAGE_BEYOND[2]
    ),
    status: "SELECT size, signed_at, (SELECT COUNT(*) FROM unsequenced) AS unplaced, CAST(0 AS BIGINT) AS unindexed
        FROM tree WHERE id = 1",
    // The main database has a table of this name too, and shares the connections.
    installation: "SELECT installation_id FROM statistics.installation WHERE id = 1",
    installation_add: "INSERT INTO statistics.installation (id, installation_id) VALUES (1, $1) ON CONFLICT DO NOTHING",
};

/// A page over many sources. Each source is an index range that is read from its end. Only the sources with the newest events can have
/// events in the page, so at most as many sources are read as the page has entries.
///
/// The index of activity is written after the log, so a page consists of events in the index, the events `$6` (JSON array of numbers), and
/// the unindexed events after number `$7`. A number may belong to another event if the group of the first was rolled back, so the source is
/// compared with the row. SQLite looks up rows by an id from a correlated query.
const SQLITE_ACTIVITY: &str = joined!(
    "WITH newest AS (SELECT r.value AS source_id FROM json_each($1) r
        CROSS JOIN events f ON f.id = (SELECT n.id FROM activity n WHERE n.source_id = r.value AND n.received_at_ms >= $2
            AND (n.received_at_ms, n.id) < ($3, $4) ORDER BY n.received_at_ms DESC, n.id DESC LIMIT 1)
        ORDER BY f.received_at_ms DESC, f.id DESC LIMIT $5),
    page AS (
        SELECT e.id FROM newest s JOIN events e ON e.id IN (SELECT n.id FROM activity n WHERE n.source_id = s.source_id
            AND n.received_at_ms >= $2 AND (n.received_at_ms, n.id) < ($3, $4)
            ORDER BY n.received_at_ms DESC, n.id DESC LIMIT $5)
        UNION
        SELECT n.id FROM json_each($6) r CROSS JOIN events n ON n.id = r.value
            WHERE n.source_id IN (SELECT value FROM json_each($1))
        UNION
        SELECT n.id FROM events n WHERE n.id > MAX($7, (SELECT events FROM indexed WHERE id = 1))
            AND n.source_id IN (SELECT value FROM json_each($1)) AND n.received_at_ms >= $2
            AND (n.received_at_ms, n.id) < ($3, $4))
    SELECT ",
    ACTIVITY_COLUMNS,
    "e.id <= (SELECT size FROM tree WHERE id = 1)",
    PLACED,
    " FROM page p CROSS JOIN events e ON e.id = p.id CROSS JOIN sources s ON s.id = e.source_id
    ORDER BY e.received_at_ms DESC, e.id DESC LIMIT $5"
);

/// The same on PostgreSQL, which supports `LATERAL` and has no unindexed events.
const POSTGRES_ACTIVITY: &str = joined!(
    "WITH newest AS (SELECT s.id, s.machine_id, s.agent_id, s.lane
        FROM jsonb_array_elements_text($1::JSONB) AS r (id)
        CROSS JOIN LATERAL (SELECT * FROM sources WHERE id = r.id::BIGINT OFFSET 0) s
        CROSS JOIN LATERAL (SELECT n.id, n.received_at_ms FROM events n WHERE n.source_id = s.id
            AND n.received_at_ms >= $2 AND (n.received_at_ms, n.id) < ($3, $4)
            ORDER BY n.received_at_ms DESC, n.id DESC LIMIT 1) f
        ORDER BY f.received_at_ms DESC, f.id DESC LIMIT $5)
    SELECT ",
    ACTIVITY_COLUMNS,
    "EXISTS (SELECT 1 FROM leaves l WHERE l.event = e.id)",
    PLACED,
    " FROM newest s CROSS JOIN LATERAL (SELECT n.* FROM events n WHERE n.source_id = s.id
        AND n.received_at_ms >= $2 AND (n.received_at_ms, n.id) < ($3, $4)
        ORDER BY n.received_at_ms DESC, n.id DESC LIMIT $5) e
    ORDER BY e.received_at_ms DESC, e.id DESC LIMIT $5"
);
