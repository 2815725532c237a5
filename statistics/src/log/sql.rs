//! The SQL of the log, all of it.
//!
//! What travels in numbers (events of a batch, tiles of a pass) travels as two parameters, however many there are: `$1` is
//! a JSON array with an object for each row, `$2` all binary values one after the other; a row says from which byte on
//! (`pos`, from 1) its own stand there. So each statement has one text, is prepared once, and costs the driver two
//! parameters instead of a thousand. The two dialects differ in how they unfold JSON, in locks, and in the clock.

use serde::Serialize;
use uuid::Uuid;

/// The two parameters of a statement about many rows.
#[derive(Debug, Default)]
pub struct Rows {
    json: Vec<u8>,
    bytes: Vec<u8>,
}

impl Rows {
    /// Where the binary values of the next row will begin.
    pub fn pos(&self) -> usize {
        self.bytes.len() + 1
    }

    /// Adds a row; `parts` are its binary values.
    pub fn push(&mut self, row: &impl Serialize, parts: &[&[u8]]) {
        self.json.push(if self.json.is_empty() { b'[' } else { b',' });
        // Writing plain members to memory cannot fail.
        let _ = serde_json::to_writer(&mut self.json, row);
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
    }

    /// `$1` and `$2`.
    pub fn parameters(mut self) -> (String, Vec<u8>) {
        if self.json.is_empty() {
            self.json.push(b'[');
        }
        self.json.push(b']');
        (String::from_utf8(self.json).unwrap_or_default(), self.bytes)
    }
}

/// `{pos, agent_id}` of [`Dialect::HEADS`]; bytes: `machine_id`.
#[derive(Debug, Serialize)]
pub struct HeadKey<'a> {
    pub pos: usize,
    pub agent_id: &'a str,
}

/// A row of [`Dialect::SOURCES_ADD`] and [`Dialect::SOURCES`]; bytes: `machine_id`.
#[derive(Debug, Serialize)]
pub struct SourceRow<'a> {
    pub pos: usize,
    pub agent_id: &'a str,
    pub user_cuid: &'a str,
    pub lane: &'a str,
}

/// A row of [`Dialect::EVENTS_ADD`]; bytes: `event_id`, `receipt_id`, `self`, `leaf_hash`, `prev_event_id` (nought for a
/// beginning), `canonical`.
#[derive(Debug, Serialize)]
pub struct EventRow<'a> {
    pub pos: usize,
    pub len: usize,
    pub source_id: i64,
    pub event_type: &'a str,
    pub ts_edge_ms: i64,
    pub consent_level: &'a str,
    pub redacted: bool,
    pub chain_epoch: u64,
    pub seq: u64,
    pub begins: bool,
    pub received_at_ms: i64,
}

/// A row of [`Dialect::HEADS_MOVE`]; bytes: `machine_id`, `self`, `event_id`.
#[derive(Debug, Serialize)]
pub struct HeadRow<'a> {
    pub pos: usize,
    pub agent_id: &'a str,
    pub chain_epoch: u64,
    pub seq: u64,
    pub moves: i64,
}

/// A row of [`Dialect::TILES_PUT`]; bytes: `hashes`.
#[derive(Debug, Serialize)]
pub struct TileRow {
    pub pos: usize,
    pub len: usize,
    pub level: u8,
    pub place: u64,
}

/// `(machine_id, agent_id, chain_epoch, seq, self, event_id, moves)` of [`Dialect::HEADS`].
pub type FoundHead = (Uuid, String, i64, i64, Vec<u8>, Uuid, i64);
/// `(event_id, receipt_id, self)` of [`Dialect::KNOWN`].
pub type KnownEvent = (Uuid, Uuid, Vec<u8>);
/// `(id, machine_id, agent_id, user_cuid, lane)` of [`Dialect::SOURCES`].
pub type FoundSource = (i64, Uuid, String, String, String);
/// `(level, place, hashes)` of [`Dialect::TILES`].
pub type FoundTile = (i64, i64, Vec<u8>);

/// A row of [`Dialect::STATE`].
#[derive(Debug, sqlx::FromRow)]
pub struct State {
    pub size: i64,
    pub root: Vec<u8>,
    pub name: String,
    pub seed: Vec<u8>,
    pub holder: Option<Uuid>,
    pub lease_ms: i64,
    pub waiting: bool,
}

/// A row of the pages of activity.
#[derive(Debug, sqlx::FromRow)]
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
}

/// An event, as its proof needs it.
#[derive(Debug, sqlx::FromRow)]
pub struct ProofRow {
    pub event_id: Uuid,
    pub receipt_id: Uuid,
    pub machine_id: Uuid,
    pub agent_id: String,
    pub chain_epoch: i64,
    pub seq: i64,
    #[sqlx(rename = "self")]
    pub self_hash: Vec<u8>,
    pub prev_event_id: Option<Uuid>,
    pub received_at_ms: i64,
    pub leaf_hash: Vec<u8>,
    pub canonical: Vec<u8>,
    pub leaf_index: Option<i64>,
}

/// An event with its number.
#[derive(Debug, sqlx::FromRow)]
pub struct AuditRow {
    pub id: i64,
    #[sqlx(flatten)]
    pub proof: ProofRow,
}

/// Events behind a number, in the order of their numbers, which is that of every chain: number, events at most.
pub const EVENTS_AFTER: &str = "SELECT e.id, e.event_id, e.receipt_id, s.machine_id, s.agent_id, e.chain_epoch, e.seq,
        e.self, e.prev_event_id, e.received_at_ms, e.leaf_hash, e.canonical, l.leaf_index
    FROM events e JOIN sources s ON s.id = e.source_id LEFT JOIN leaves l ON l.event = e.id
    WHERE e.id > $1 ORDER BY e.id LIMIT $2";
/// All heads, as [`FoundHead`].
pub const HEADS_ALL: &str = "SELECT machine_id, agent_id, chain_epoch, seq, self, event_id, moves FROM chain_heads";
/// `(vkey, active_from, retired_at)`, oldest first.
pub const KEYS: &str = "SELECT vkey, active_from, retired_at FROM log_keys ORDER BY active_from, vkey";
/// The name of the key that signs.
pub const KEY_ACTIVE: &str = "SELECT name FROM log_keys WHERE retired_at IS NULL";
/// Adds a key, unless one signs already: vkey, name, seed, `active_from`.
pub const KEY_ADD: &str = "INSERT INTO log_keys (vkey, name, seed, active_from) VALUES ($1, $2, $3, $4)
    ON CONFLICT DO NOTHING";
/// The tree before its first leaf: root, checkpoint, vkey, `signed_at`.
pub const TREE_BEGIN: &str =
    "INSERT INTO tree (id, size, root, checkpoint, vkey, signed_at) VALUES (1, 0, $1, $2, $3, $4)";
/// How many leaves were signed last.
pub const TREE_SIZE: &str = "SELECT size FROM tree WHERE id = 1";
/// Signs the next tree, if the last one is still the one that was read and the lease is still ours: size, root,
/// checkpoint, vkey, `signed_at`; size before; holder, fence.
pub const TREE_GROW: &str = "UPDATE tree SET size = $1, root = $2, checkpoint = $3, vkey = $4, signed_at = $5
    WHERE id = 1 AND size = $6 AND EXISTS (SELECT 1 FROM sequencer WHERE id = 1 AND holder = $7 AND fence = $8)";

/// Ends our own lease: holder.
pub const LEASE_END: &str = "UPDATE sequencer SET holder = NULL WHERE id = 1 AND holder = $1";

/// The statements that differ. Those about many rows take the parameters of [`Rows`].
pub trait Dialect: sqlx::Database {
    /// The heads of some chain keys. On PostgreSQL they are locked, in one order everywhere, so nobody waits in a circle.
    const HEADS: &'static str;
    /// Those of some events (`$1`: where each id begins) that were taken already.
    const KNOWN: &'static str;
    /// Adds sources that are new.
    const SOURCES_ADD: &'static str;
    /// The ids of sources.
    const SOURCES: &'static str;
    /// Adds events, in the order given.
    const EVENTS_ADD: &'static str;
    /// Moves heads, or adds them. A head that somebody else has moved is not counted.
    const HEADS_MOVE: &'static str;
    /// The tree, the key, the lease (milliseconds left by the clock of the database) and whether events wait.
    const STATE: &'static str;
    /// Takes or renews the lease, unless another holds it: holder, milliseconds. Gives the fence.
    const LEASE: &'static str;
    /// `(event, leaf_hash)` of those that wait, in the order of commits, at most `$1`.
    const WAITING: &'static str;
    /// Gives events (`$1`: their ids) their places in the tree, from leaf `$2` on.
    const PLACE: &'static str;
    /// `(leaf_index, leaf_hash)` in the order of the tree: first place, leaves at most.
    const LEAVES_FROM: &'static str;
    /// Some tiles.
    const TILES: &'static str;
    /// Adds tiles or rewrites them.
    const TILES_PUT: &'static str;
    /// A page of activity of a computer, or of identities (JSON array): `$1`; lane or null; since; before `($4, $5)`; limit.
    const ACTIVITY: [&'static str; 2];
    /// `(user_cuid, day, memory, retrospectives)` of leaves: the lane and the event type that count; first leaf, end; milliseconds
    /// of a day.
    const USAGE: &'static str;
    /// `(memory, retrospectives)` beyond the leaves that are counted: the lane and the event type that count; leaves; events at
    /// most; identities (JSON array); received from, until.
    const USAGE_BEYOND: &'static str;
}

/// Columns and binary values of an event's row; `$uuid` reads an id from the bytes.
macro_rules! events_add {
    ($uuid:literal, $close:literal) => {
        concat!(
            "INSERT INTO events (event_id, receipt_id, source_id, event_type, ts_edge_ms, consent_level, redacted,
                chain_epoch, seq, self, prev_event_id, received_at_ms, leaf_hash, canonical)
            SELECT ",
            $uuid, "substr($2, pos, 16)", $close, ", ",
            $uuid, "substr($2, pos + 16, 16)", $close, ",
                source_id, event_type, ts_edge_ms, consent_level, redacted, chain_epoch, seq, substr($2, pos + 32, 32),
                CASE WHEN begins THEN NULL ELSE ", $uuid, "substr($2, pos + 96, 16)", $close, " END,
                received_at_ms, substr($2, pos + 64, 32), substr($2, pos + 112, len) FROM r"
        )
    };
}

macro_rules! heads_move {
    ($rows:literal, $uuid:literal, $close:literal) => {
        concat!(
            $rows,
            " INSERT INTO chain_heads (machine_id, agent_id, chain_epoch, seq, self, event_id, moves)
            SELECT ",
            $uuid,
            "substr($2, pos, 16)",
            $close,
            ", agent_id, chain_epoch, seq, substr($2, pos + 16, 32), ",
            $uuid,
            "substr($2, pos + 48, 16)",
            $close,
            ", moves FROM r WHERE true
            ON CONFLICT (machine_id, agent_id) DO UPDATE SET chain_epoch = excluded.chain_epoch, seq = excluded.seq,
                self = excluded.self, event_id = excluded.event_id, moves = excluded.moves
            WHERE chain_heads.moves = excluded.moves - 1"
        )
    };
}

/// Tree, key and lease; `$now` is the clock of the database in milliseconds.
macro_rules! state {
    ($now:literal, $waiting:literal) => {
        concat!(
            "SELECT t.size, t.root, k.name, k.seed, s.holder, s.held_until_ms - ",
            $now,
            " AS lease_ms,
                EXISTS (",
            $waiting,
            ") AS waiting
            FROM tree t CROSS JOIN sequencer s CROSS JOIN log_keys k WHERE k.retired_at IS NULL"
        )
    };
}

macro_rules! lease {
    ($now:literal) => {
        concat!(
            "UPDATE sequencer SET fence = CASE WHEN holder = $1 THEN fence ELSE fence + 1 END, holder = $1,
                held_until_ms = ",
            $now,
            " + $2
            WHERE id = 1 AND (holder IS NULL OR holder = $1 OR held_until_ms < ",
            $now,
            ") RETURNING fence"
        )
    };
}

/// A page over many sources, each of which is an index that is read from its end. Only the sources with the newest events can have
/// events in the page, so no more sources are read than the page is long.
macro_rules! activity {
    ($scope:literal, $newest:literal, $page:literal) => {
        concat!(
            "WITH newest AS (SELECT s.id, s.machine_id, s.agent_id, s.lane FROM sources s ",
            $newest,
            " WHERE ",
            $scope,
            " AND (CAST($2 AS TEXT) IS NULL OR s.lane = $2) ORDER BY f.received_at_ms DESC, f.id DESC LIMIT $6)
            SELECT e.id, e.event_id, e.event_type, s.lane, s.agent_id, s.machine_id, e.ts_edge_ms, e.received_at_ms,
                e.consent_level, e.redacted, e.chain_epoch, e.seq, e.receipt_id
            FROM newest s ",
            $page,
            " ORDER BY e.received_at_ms DESC, e.id DESC LIMIT $6"
        )
    };
}

/// SQLite looks rows up by an id that a correlated query found.
macro_rules! sqlite_activity {
    ($scope:literal) => {
        activity!(
            $scope,
            "JOIN events f ON f.id = (SELECT n.id FROM events n WHERE n.source_id = s.id AND n.received_at_ms >= $3
                AND (n.received_at_ms, n.id) < ($4, $5) ORDER BY n.received_at_ms DESC, n.id DESC LIMIT 1)",
            "JOIN events e ON e.id IN (SELECT n.id FROM events n WHERE n.source_id = s.id AND n.received_at_ms >= $3
                AND (n.received_at_ms, n.id) < ($4, $5) ORDER BY n.received_at_ms DESC, n.id DESC LIMIT $6)"
        )
    };
}

/// PostgreSQL has a join for it.
macro_rules! postgres_activity {
    ($scope:literal) => {
        activity!(
            $scope,
            "CROSS JOIN LATERAL (SELECT n.id, n.received_at_ms FROM events n WHERE n.source_id = s.id
                AND n.received_at_ms >= $3 AND (n.received_at_ms, n.id) < ($4, $5)
                ORDER BY n.received_at_ms DESC, n.id DESC LIMIT 1) f",
            "CROSS JOIN LATERAL (SELECT n.* FROM events n WHERE n.source_id = s.id
                AND n.received_at_ms >= $3 AND (n.received_at_ms, n.id) < ($4, $5)
                ORDER BY n.received_at_ms DESC, n.id DESC LIMIT $6) e"
        )
    };
}

/// Sums of `$events` by identity and day; what comes to nothing is left out.
macro_rules! usage {
    ($events:literal) => {
        concat!(
            "SELECT s.user_cuid, e.received_at_ms / $5 AS day,
                SUM(CASE WHEN s.lane = $1 THEN 1 ELSE 0 END) AS memory,
                SUM(CASE WHEN e.event_type = $2 THEN 1 ELSE 0 END) AS retrospectives
            FROM ",
            $events,
            " JOIN sources s ON s.id = e.source_id WHERE s.lane = $1 OR e.event_type = $2
            GROUP BY s.user_cuid, e.received_at_ms / $5"
        )
    };
}

/// The sum of what `$events` shows of `$identities`.
macro_rules! usage_beyond {
    ($events:literal, $identities:literal) => {
        concat!(
            "SELECT CAST(COALESCE(SUM(CASE WHEN s.lane = $1 THEN 1 ELSE 0 END), 0) AS BIGINT),
                CAST(COALESCE(SUM(CASE WHEN e.event_type = $2 THEN 1 ELSE 0 END), 0) AS BIGINT)
            FROM ",
            $events,
            " JOIN sources s ON s.id = e.source_id WHERE s.user_cuid IN (",
            $identities,
            ") AND e.received_at_ms >= $6 AND e.received_at_ms < $7"
        )
    };
}

impl Dialect for sqlx::Sqlite {
    const HEADS: &'static str = "SELECT h.machine_id, h.agent_id, h.chain_epoch, h.seq, h.self, h.event_id, h.moves
        FROM json_each($1) r CROSS JOIN chain_heads h
        WHERE h.machine_id = substr($2, r.value ->> 'pos', 16) AND h.agent_id = r.value ->> 'agent_id'";
    const KNOWN: &'static str = "SELECT e.event_id, e.receipt_id, e.self FROM json_each($1) r CROSS JOIN events e
        WHERE e.event_id = substr($2, r.value, 16)";
    const SOURCES_ADD: &'static str = "INSERT INTO sources (machine_id, agent_id, user_cuid, lane)
        SELECT substr($2, value ->> 'pos', 16), value ->> 'agent_id', value ->> 'user_cuid', value ->> 'lane'
        FROM json_each($1) WHERE true ON CONFLICT DO NOTHING";
    const SOURCES: &'static str = "SELECT s.id, s.machine_id, s.agent_id, s.user_cuid, s.lane
        FROM json_each($1) r CROSS JOIN sources s
        WHERE s.machine_id = substr($2, r.value ->> 'pos', 16) AND s.agent_id = r.value ->> 'agent_id'
            AND s.user_cuid = r.value ->> 'user_cuid' AND s.lane = r.value ->> 'lane'";
    const EVENTS_ADD: &'static str = concat!(
        "WITH r AS (SELECT value ->> 'pos' AS pos, value ->> 'len' AS len, value ->> 'source_id' AS source_id,
            value ->> 'event_type' AS event_type, value ->> 'ts_edge_ms' AS ts_edge_ms,
            value ->> 'consent_level' AS consent_level, value ->> 'redacted' AS redacted,
            value ->> 'chain_epoch' AS chain_epoch, value ->> 'seq' AS seq, value ->> 'begins' AS begins,
            value ->> 'received_at_ms' AS received_at_ms FROM json_each($1)) ",
        events_add!("", "")
    );
    const HEADS_MOVE: &'static str = heads_move!(
        "WITH r AS (SELECT value ->> 'pos' AS pos, value ->> 'agent_id' AS agent_id, value ->> 'chain_epoch' AS chain_epoch,
            value ->> 'seq' AS seq, value ->> 'moves' AS moves FROM json_each($1))",
        "",
        ""
    );
    const STATE: &'static str = state!(
        "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
        "SELECT 1 FROM events WHERE id > (SELECT COALESCE(MAX(event), 0) FROM leaves)"
    );
    const LEASE: &'static str = lease!("CAST(unixepoch('subsec') * 1000 AS INTEGER)");
    const WAITING: &'static str = "SELECT id, leaf_hash FROM events
        WHERE id > (SELECT COALESCE(MAX(event), 0) FROM leaves) ORDER BY id LIMIT $1";
    const PLACE: &'static str =
        "INSERT INTO leaves (event, leaf_index) SELECT value, $2 + key FROM json_each($1) WHERE true";
    // The event with id n has place n - 1, so the places stand in the order of the ids.
    const LEAVES_FROM: &'static str = "SELECT l.leaf_index, e.leaf_hash FROM leaves l JOIN events e ON e.id = l.event
        WHERE l.event > $1 ORDER BY l.event LIMIT $2";
    const TILES: &'static str = "SELECT t.level, t.place, t.hashes FROM json_each($1) r CROSS JOIN tiles t
        WHERE t.level = r.value ->> 'level' AND t.place = r.value ->> 'place'";
    const TILES_PUT: &'static str = "INSERT INTO tiles (level, place, hashes)
        SELECT value ->> 'level', value ->> 'place', substr($2, value ->> 'pos', value ->> 'len') FROM json_each($1)
        WHERE true ON CONFLICT (level, place) DO UPDATE SET hashes = excluded.hashes";
    const ACTIVITY: [&'static str; 2] =
        [sqlite_activity!("s.machine_id = $1"), sqlite_activity!("s.user_cuid IN (SELECT value FROM json_each($1))")];
    // Here the event with id n has place n - 1: ids have no gap, and places are given in their order.
    const USAGE: &'static str = usage!("(SELECT * FROM events WHERE id > $3 AND id <= $4) e");
    const USAGE_BEYOND: &'static str =
        usage_beyond!("(SELECT * FROM events WHERE id > $3 AND id <= $3 + $4) e", "SELECT value FROM json_each($5)");
}

/// Lookups of many keys are written as one lookup for each (`LATERAL`, which `OFFSET 0` keeps as it stands): a plan that was made and
/// cached while the tables were empty would otherwise read them whole for ever.
impl Dialect for sqlx::Postgres {
    // The keys come sorted, and are locked in that order.
    const HEADS: &'static str = "SELECT h.* FROM jsonb_to_recordset($1::JSONB) AS r (pos INT, agent_id TEXT)
        CROSS JOIN LATERAL (SELECT h.machine_id, h.agent_id, h.chain_epoch, h.seq, h.self, h.event_id, h.moves
            FROM chain_heads h WHERE h.machine_id = encode(substr($2, r.pos, 16), 'hex')::UUID AND h.agent_id = r.agent_id
            FOR UPDATE) h";
    const KNOWN: &'static str = "SELECT e.* FROM jsonb_array_elements_text($1::JSONB) AS r (pos)
        CROSS JOIN LATERAL (SELECT e.event_id, e.receipt_id, e.self FROM events e
            WHERE e.event_id = encode(substr($2, r.pos::INT, 16), 'hex')::UUID OFFSET 0) e";
    const SOURCES_ADD: &'static str = "INSERT INTO sources (machine_id, agent_id, user_cuid, lane)
        SELECT encode(substr($2, pos, 16), 'hex')::UUID, agent_id, user_cuid, lane
        FROM jsonb_to_recordset($1::JSONB) AS r (pos INT, agent_id TEXT, user_cuid TEXT, lane TEXT)
        ORDER BY 1, 2, 3, 4 ON CONFLICT DO NOTHING";
    const SOURCES: &'static str = "SELECT s.id, s.machine_id, s.agent_id, s.user_cuid, s.lane
        FROM jsonb_to_recordset($1::JSONB) AS r (pos INT, agent_id TEXT, user_cuid TEXT, lane TEXT)
        CROSS JOIN LATERAL (SELECT * FROM sources s WHERE s.machine_id = encode(substr($2, r.pos, 16), 'hex')::UUID
            AND s.agent_id = r.agent_id AND s.user_cuid = r.user_cuid AND s.lane = r.lane OFFSET 0) s";
    const EVENTS_ADD: &'static str = concat!(
        "WITH r AS (SELECT * FROM jsonb_to_recordset($1::JSONB) AS r (pos INT, len INT, source_id BIGINT,
            event_type TEXT, ts_edge_ms BIGINT, consent_level TEXT, redacted BOOLEAN, chain_epoch BIGINT, seq BIGINT,
            begins BOOLEAN, received_at_ms BIGINT)), added AS (",
        events_add!("encode(", ", 'hex')::UUID"),
        " ORDER BY pos RETURNING id, leaf_hash) INSERT INTO unsequenced (event, leaf_hash) SELECT id, leaf_hash FROM added"
    );
    const HEADS_MOVE: &'static str = heads_move!(
        "WITH r AS (SELECT * FROM jsonb_to_recordset($1::JSONB) AS r (pos INT, agent_id TEXT, chain_epoch BIGINT,
            seq BIGINT, moves BIGINT))",
        "encode(",
        ", 'hex')::UUID"
    );
    const STATE: &'static str =
        state!("CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)", "SELECT 1 FROM unsequenced");
    const LEASE: &'static str = lease!("CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)");
    const WAITING: &'static str = "SELECT event, leaf_hash FROM unsequenced ORDER BY event LIMIT $1";
    const PLACE: &'static str = "WITH r AS (SELECT event::BIGINT AS event, place - 1 AS place
            FROM jsonb_array_elements_text($1::JSONB) WITH ORDINALITY AS t (event, place)),
        gone AS (DELETE FROM unsequenced u USING r WHERE u.event = r.event)
        INSERT INTO leaves (event, leaf_index) SELECT event, $2 + place FROM r";
    const LEAVES_FROM: &'static str = "SELECT l.leaf_index, e.leaf_hash FROM leaves l JOIN events e ON e.id = l.event
        WHERE l.leaf_index >= $1 ORDER BY l.leaf_index LIMIT $2";
    const TILES: &'static str = "SELECT t.* FROM jsonb_to_recordset($1::JSONB) AS r (level BIGINT, place BIGINT)
        CROSS JOIN LATERAL (SELECT t.level, t.place, t.hashes FROM tiles t
            WHERE t.level = r.level AND t.place = r.place OFFSET 0) t";
    const TILES_PUT: &'static str = "INSERT INTO tiles (level, place, hashes)
        SELECT level, place, substr($2, pos, len)
        FROM jsonb_to_recordset($1::JSONB) AS r (pos INT, len INT, level BIGINT, place BIGINT)
        ON CONFLICT (level, place) DO UPDATE SET hashes = excluded.hashes";
    const ACTIVITY: [&'static str; 2] = [
        postgres_activity!("s.machine_id = $1"),
        postgres_activity!("s.user_cuid IN (SELECT jsonb_array_elements_text($1::JSONB))"),
    ];
    const USAGE: &'static str =
        usage!("(SELECT * FROM leaves WHERE leaf_index >= $3 AND leaf_index < $4) l JOIN events e ON e.id = l.event");
    const USAGE_BEYOND: &'static str = usage_beyond!(
        "(SELECT event FROM leaves WHERE leaf_index >= $3 AND leaf_index < $3 + $4
            UNION ALL (SELECT event FROM unsequenced ORDER BY event LIMIT $4)) l JOIN events e ON e.id = l.event",
        "SELECT jsonb_array_elements_text($5::JSONB)"
    );
}
