//! The SQL of proofs.

use domain::Timestamp;
use store::joined;
use uuid::Uuid;

use crate::log::sql::ProofRow;

/// Number of leaves in a group. The lowest [`GROUP_LEVELS`] hashes of an inclusion path depend on one group only.
pub const GROUP: u64 = 1 << GROUP_LEVELS;
/// Levels of a tile that are not cached but computed from the group, which is read with the event.
pub const GROUP_LEVELS: u8 = 4;

store::row! {
    /// An event with its place, and the size of the signed tree in the same snapshot.
    #[derive(Debug, Clone)]
    pub struct PlacedRow {
        pub event_id: Uuid,
        pub receipt_id: Uuid,
        pub machine_id: Uuid,
        pub user_cuid: String,
        pub agent_id: String,
        pub chain_epoch: i64,
        pub seq: i64,
        pub self_hash: Vec<u8>,
        pub prev_event_id: Option<Uuid>,
        pub received_at_ms: i64,
        pub leaf_hash: Vec<u8>,
        pub canonical: Vec<u8>,
        pub leaf_index: Option<i64>,
        pub tree_size: i64,
        /// The leaf hashes of its [`GROUP`]; fewer at the end of the tree.
        pub siblings: Option<Vec<u8>>,
    }
}

store::row! {
    /// The signed tree with its checkpoint and key.
    #[derive(Debug, Clone)]
    pub struct TreeRow {
        pub size: i64,
        pub root: Vec<u8>,
        pub checkpoint: String,
        pub vkey: String,
        pub signed_at: Timestamp,
    }
}

store::row! {
    /// Hashes of a tile, concatenated.
    #[derive(Debug, Clone)]
    pub struct HashesRow {
        pub hashes: Vec<u8>,
    }
}

impl PlacedRow {
    /// Splits the row into the event and the leaf hashes of its group.
    pub fn parted(self) -> (ProofRow, Option<Vec<u8>>) {
        let row = ProofRow {
            event_id: self.event_id,
            receipt_id: self.receipt_id,
            machine_id: self.machine_id,
            agent_id: self.agent_id,
            chain_epoch: self.chain_epoch,
            seq: self.seq,
            self_hash: self.self_hash,
            prev_event_id: self.prev_event_id,
            received_at_ms: self.received_at_ms,
            leaf_hash: self.leaf_hash,
            canonical: self.canonical,
            leaf_index: self.leaf_index,
        };
        (row, self.siblings)
    }
}

store::row! {
    /// A chunk of a run of ids: sorted entries.
    #[derive(Debug, Clone)]
    pub struct ChunkRow {
        pub entries: Vec<u8>,
    }
}

store::row! {
    /// Number of an event.
    #[derive(Debug, Clone)]
    pub struct NumberRow {
        pub id: i64,
    }
}

/// An event with its place. The parts are the text before each of the three uses of the place expression, before the further tables,
/// before the condition of the event, and after it.
const SELECT_PLACED: [&str; 6] = [
    "SELECT e.event_id, e.receipt_id, s.machine_id, s.user_cuid, s.agent_id, e.chain_epoch, e.seq,
        e.self AS self_hash, e.prev_event_id, e.received_at_ms, e.leaf_hash, e.canonical, ",
    " AS leaf_index, t.size AS tree_size,
        (SELECT substr(h.hashes, CAST((",
    ") % 256 / 16 * 512 + 1 AS INTEGER), 512) FROM tiles h WHERE h.level = 0 AND h.place = (",
    ") / 256) AS siblings
    FROM events e JOIN sources s ON s.id = e.source_id ",
    " CROSS JOIN tree t WHERE ",
    " AND t.id = 1",
];

/// The event with number n has place n - 1, once the signed tree contains it.
const PLACE_ON_SQLITE: &str = "CASE WHEN e.id <= t.size THEN e.id - 1 END";

store::probes! {
    /// An event by its number and its id.
    pub(in crate::log) short PLACED: PlacedRow =
        joined!(
        SELECT_PLACED[0],
        PLACE_ON_SQLITE,
        SELECT_PLACED[1],
        PLACE_ON_SQLITE,
        SELECT_PLACED[2],
        PLACE_ON_SQLITE,
        SELECT_PLACED[3],
        SELECT_PLACED[4],
        "e.id = $1 AND e.event_id = $2",
        SELECT_PLACED[5]
    );
    /// The chunks that may contain an id, one for each run.
    pub(in crate::log) short CHUNKS: ChunkRow = "SELECT c.entries FROM id_runs r CROSS JOIN id_chunks c
            ON c.chunk = (SELECT f.chunk FROM id_fences f WHERE f.run = r.run AND f.first_id <= $1 ORDER BY f.first_id DESC LIMIT 1)
        WHERE r.state = 'whole' AND r.first_id <= $1 AND r.last_id >= $1";
    /// The number of an unindexed event. Parameters: the number after which it is searched, its id.
    pub(in crate::log) short UNINDEXED: NumberRow = "SELECT id FROM events
        WHERE id > MAX($1, (SELECT events FROM indexed WHERE id = 1)) AND event_id = $2";
    pub(in crate::log) short TREE: TreeRow = "SELECT size, root, checkpoint, vkey, signed_at FROM tree WHERE id = 1";
    /// A tile. Parameters: level, place.
    pub(in crate::log) short TILE: HashesRow = "SELECT hashes FROM tiles WHERE level = $1 AND place = $2";
}

/// An event by its id on PostgreSQL, where numbers and places differ.
pub const PLACED_ON_POSTGRES: &str = joined!(
    SELECT_PLACED[0],
    "l.leaf_index",
    SELECT_PLACED[1],
    "l.leaf_index",
    SELECT_PLACED[2],
    "l.leaf_index",
    SELECT_PLACED[3],
    "LEFT JOIN leaves l ON l.event = e.id",
    SELECT_PLACED[4],
    "e.event_id = $1",
    SELECT_PLACED[5]
);

#[cfg(test)]
mod tests {
    use domain::{Clock, Rng};
    use store::{DatabaseSettings, Pool};

    use crate::log::Log;

    #[tokio::test]
    async fn every_probe_is_answered_from_indices() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("statistics.db");
        let pool = Pool::open(&DatabaseSettings::default(), &path, None).await.unwrap();
        let log = Log::open(pool, "attache.test/log", &Clock::system(), &Rng::system()).await.unwrap();
        let Pool::Sqlite { file, .. } = &log.pool else { unreachable!() };
        for (sql, columns) in super::ALL {
            assert_eq!(store::pool::not_a_probe(file, sql, columns), None, "{sql}");
        }
    }
}
