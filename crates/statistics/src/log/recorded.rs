//! Reads events with their bytes in the order of the tree, for rules about recorded events (`docs/decisions/0033-notifications.md`).
//!
//! The place of an event never changes, so a reader that stores the place that it has reached neither misses an event nor reads one twice.

use std::collections::BTreeSet;

use chrono::DateTime;
use domain::Timestamp;
use domain::consent::ConsentLevel;
use domain::envelope::Lane;
use domain::ids::{EventId, MachineUuid};
use domain::recorder::{Recorder, Recorders};
use store::joined;
use store::pool::{query, scalar};
use uuid::Uuid;

use super::error::{During, LogError};
use super::handle::Log;
use super::read::is_shown;
use super::sql::TREE_SIZE;

/// Maximum number of sources of which [`Log::newest_events`] reads events.
const SOURCES_MAX: usize = 200;

/// An event of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedEvent {
    /// Its place in the tree.
    pub place: u64,
    /// Id of the event.
    pub event_id: EventId,
    /// Type of the event.
    pub event_type: String,
    /// Lane of the event.
    pub lane: Lane,
    /// Agent kind.
    pub agent: String,
    /// Who recorded it.
    pub recorder: Recorder,
    /// Declared consent level.
    pub consent_level: ConsentLevel,
    /// Time of receipt.
    pub received_at: Timestamp,
    /// RFC 8785 bytes of the event.
    pub canonical: Vec<u8>,
}

impl RecordedEvent {
    /// Whether a reader of these recorders sees the event.
    pub fn is_shown_to(&self, shown: &Recorders) -> bool {
        shown.all().any(|known| *known == self.recorder)
            && is_shown(shown, self.recorder.machine, Some(&self.canonical))
    }
}

store::row! {
    #[derive(Debug)]
    struct RecordedRow {
        place: i64,
        id: i64,
        event_id: Uuid,
        event_type: String,
        lane: String,
        agent_id: String,
        machine_id: Uuid,
        user_cuid: String,
        consent_level: String,
        received_at_ms: i64,
        canonical: Vec<u8>,
    }
}

/// The columns of [`RecordedRow`] after the place.
const COLUMNS: &str =
    " AS place, e.id, e.event_id, e.event_type, s.lane, s.agent_id, s.machine_id, s.user_cuid, e.consent_level,
    e.received_at_ms, e.canonical ";

/// `(machine_id, user_cuid)` of the recorders of leaves, on SQLite and PostgreSQL. Parameters: first leaf, end.
const RECORDERS: [&str; 2] = [
    "SELECT DISTINCT s.machine_id, s.user_cuid FROM sources s
        WHERE s.id IN (SELECT source_id FROM events WHERE id > $1 AND id <= $2)",
    "SELECT DISTINCT s.machine_id, s.user_cuid FROM leaves l JOIN events e ON e.id = l.event
        JOIN sources s ON s.id = e.source_id WHERE l.leaf_index >= $1 AND l.leaf_index < $2",
];

/// Parameters: sources (JSON array of numbers), first leaf, end, maximum number of events.
const BETWEEN: [&str; 2] = [
    joined!(
        "SELECT e.id - 1",
        COLUMNS,
        "FROM events e CROSS JOIN sources s ON s.id = e.source_id WHERE e.id > $2 AND e.id <= $3
            AND e.source_id IN (SELECT value FROM json_each($1)) ORDER BY e.id LIMIT $4"
    ),
    joined!(
        "SELECT l.leaf_index",
        COLUMNS,
        "FROM leaves l JOIN events e ON e.id = l.event JOIN sources s ON s.id = e.source_id
            WHERE l.leaf_index >= $2 AND l.leaf_index < $3
                AND e.source_id IN (SELECT jsonb_array_elements_text($1::JSONB)::BIGINT) ORDER BY l.leaf_index LIMIT $4"
    ),
];

/// Parameters: source, maximum number of events. The place is the number of the event, which the caller does not use.
const NEWEST: [&str; 2] = [
    joined!(
        "SELECT e.id",
        COLUMNS,
        "FROM (SELECT id FROM (SELECT n.id FROM activity n WHERE n.source_id = $1 ORDER BY n.received_at_ms DESC, n.id DESC LIMIT $2)
                UNION SELECT u.id FROM events u WHERE u.id > (SELECT events FROM indexed WHERE id = 1) AND u.source_id = $1) n
            CROSS JOIN events e ON e.id = n.id CROSS JOIN sources s ON s.id = e.source_id
            WHERE e.source_id = $1 ORDER BY e.received_at_ms DESC, e.id DESC LIMIT $2"
    ),
    joined!(
        "SELECT e.id",
        COLUMNS,
        "FROM events e JOIN sources s ON s.id = e.source_id
            WHERE e.source_id = $1 ORDER BY e.received_at_ms DESC, e.id DESC LIMIT $2"
    ),
];

impl Log {
    /// Number of leaves of the signed tree.
    #[boxed]
    pub async fn leaves(&self) -> Result<u64, LogError> {
        let size: i64 = scalar(TREE_SIZE).fetch_one(&self.pool).await.during("read the size of the tree")?;
        u64::try_from(size).map_err(|_| LogError::Corrupt("tree.size"))
    }

    /// The recorders of at most `leaves_max` leaves from place `from` on, and the end place; `from` if there are no new leaves.
    #[boxed]
    pub async fn recorders_from(&self, from: u64, leaves_max: u32) -> Result<(u64, Vec<Recorder>), LogError> {
        let until = self.leaves().await?.min(from.saturating_add(leaves_max.into()));
        if until <= from {
            return Ok((from, Vec::new()));
        }
        let rows = query(RECORDERS[usize::from(self.pool.is_postgres())]).bind(number(from)).bind(number(until));
        let rows: Vec<(Uuid, String)> = rows.fetch_all(&self.pool).await.during("read the recorders of new leaves")?;
        let recorders = rows.into_iter().map(|(machine, identity)| recorder(machine, &identity));
        Ok((until, recorders.collect::<Result<_, _>>()?))
    }

    /// At most `events_max` events of `recorders` from place `from` up to, but without, `until`, in the order of the tree.
    #[boxed]
    pub async fn events_between(
        &self,
        recorders: &BTreeSet<Recorder>,
        from: u64,
        until: u64,
        events_max: u32,
    ) -> Result<Vec<RecordedEvent>, LogError> {
        let sources = self.sources_of(recorders.iter(), None, None).await?;
        let sources = serde_json::to_string(&sources).unwrap_or_default();
        let rows = query(BETWEEN[usize::from(self.pool.is_postgres())]).bind(&sources);
        let rows = rows.bind(number(from)).bind(number(until)).bind(i64::from(events_max));
        let mut rows: Vec<RecordedRow> = rows.fetch_all(&self.pool).await.during("read the events of new leaves")?;
        self.fill_numbered(rows.iter_mut().map(|row| (row.id, &mut row.canonical)).collect()).await?;
        rows.into_iter().map(RecordedEvent::try_from).collect()
    }

    /// The newest events that a reader of `shown` sees, at most `events_max` of each computer, agent kind and lane; without events that have
    /// their bodies in the archive only, since each may be in another bundle.
    #[boxed]
    pub async fn newest_events(&self, shown: &Recorders, events_max: u32) -> Result<Vec<RecordedEvent>, LogError> {
        let mut sources = self.sources_of(shown.all(), None, None).await?;
        // The newest sources have the greatest numbers.
        sources.sort_unstable_by(|one, other| other.cmp(one));
        let mut events = Vec::new();
        for source in sources.into_iter().take(SOURCES_MAX) {
            let rows = query(NEWEST[usize::from(self.pool.is_postgres())]).bind(source).bind(i64::from(events_max));
            let rows: Vec<RecordedRow> =
                rows.fetch_all(&self.pool).await.during("read the newest events of a source")?;
            for row in rows.into_iter().filter(|row| !row.canonical.is_empty()) {
                let event = RecordedEvent::try_from(row)?;
                if event.is_shown_to(shown) {
                    events.push(event);
                }
            }
        }
        Ok(events)
    }
}

fn number(place: u64) -> i64 {
    i64::try_from(place).unwrap_or(i64::MAX)
}

fn recorder(machine: Uuid, identity: &str) -> Result<Recorder, LogError> {
    let identity = identity.parse().map_err(|_| LogError::Corrupt("sources.user_cuid"))?;
    Ok(Recorder { machine: MachineUuid::from(machine), identity })
}

impl TryFrom<RecordedRow> for RecordedEvent {
    type Error = LogError;

    fn try_from(row: RecordedRow) -> Result<Self, LogError> {
        let received_at = DateTime::from_timestamp_millis(row.received_at_ms);
        Ok(Self {
            place: u64::try_from(row.place).map_err(|_| LogError::Corrupt("leaves.leaf_index"))?,
            event_id: row.event_id.into(),
            event_type: row.event_type,
            lane: row.lane.parse().map_err(|_| LogError::Corrupt("sources.lane"))?,
            agent: row.agent_id,
            recorder: recorder(row.machine_id, &row.user_cuid)?,
            consent_level: row.consent_level.parse().map_err(|_| LogError::Corrupt("events.consent_level"))?,
            received_at: received_at.ok_or(LogError::Corrupt("events.received_at_ms"))?,
            canonical: row.canonical,
        })
    }
}
