//! Events without a place in the tree, in the writer's memory.

use std::collections::VecDeque;
use std::sync::Arc;

use domain::Digest;
use domain::ids::MachineUuid;
use domain::recorder::Recorder;
use domain::usage::QuotaUsed;
use rusqlite::{Connection, OptionalExtension as _};

use crate::log::error::{DuringSqlite as _, LogError};

/// Maximum number of events without a place in memory; the others are read again when they are placed.
const KEPT_MAX: usize = 131_072;

/// An event without a place.
pub struct Unplaced {
    pub received_at_ms: i64,
    pub leaf: Digest,
    pub counted: Option<Counted>,
}

/// The usage that an event adds to its computer.
pub struct Counted {
    pub recorder: Arc<Recorder>,
    pub used: QuotaUsed,
}

impl Counted {
    /// Returns `None` for an event that does not count as usage.
    pub fn of(recorder: Arc<Recorder>, lane: domain::envelope::Lane, event_type: &str) -> Option<Self> {
        let used = QuotaUsed::by(lane, event_type);
        (!used.is_nothing()).then_some(Self { recorder, used })
    }

    /// The same for an event that was read from the tables.
    pub fn stored(
        machine: MachineUuid,
        identity: &str,
        lane: &str,
        event_type: &str,
    ) -> Result<Option<Self>, LogError> {
        let identity = identity.parse().map_err(|_| LogError::Corrupt("sources.user_cuid"))?;
        let lane = lane.parse().map_err(|_| LogError::Corrupt("sources.lane"))?;
        Ok(Self::of(Arc::new(Recorder { machine, identity }), lane, event_type))
    }
}

/// The events after the signed tree, in the order of their rows. A row's number is one more than its place, since rows have no gap.
pub struct UnplacedEvents {
    /// Number of leaves of the signed tree.
    pub size: i64,
    /// The number of the first of `events`.
    first: i64,
    /// The oldest events without a place, without a gap, up to [`KEPT_MAX`].
    pub events: VecDeque<Unplaced>,
}

impl UnplacedEvents {
    /// No events, after a tree of `size` leaves.
    pub fn from(size: i64) -> Self {
        Self { size, first: size + 1, events: VecDeque::new() }
    }

    /// The number of the event after the last one in memory.
    pub fn next(&self) -> i64 {
        self.first + i64::try_from(self.events.len()).unwrap_or(i64::MAX)
    }

    /// Adds an event if it follows the last one in memory and there is space; returns whether it was added.
    pub fn push(&mut self, number: i64, event: Unplaced) -> bool {
        let is_next = number == self.next() && self.events.len() < KEPT_MAX;
        if is_next {
            self.events.push_back(event);
        }
        is_next
    }

    /// Removes the events that a signed tree of `size` leaves contains.
    pub fn advance(&mut self, size: i64) {
        self.size = size;
        while self.first <= size && self.events.pop_front().is_some() {
            self.first += 1;
        }
        if self.events.is_empty() {
            self.first = size + 1;
        }
    }
}

/// Number of leaves of the signed tree.
pub fn size(db: &Connection) -> Result<i64, LogError> {
    const ASK: &str = "read the size of the tree";
    let size = db.query_row("SELECT size FROM tree WHERE id = 1", [], |row| row.get(0)).optional().during(ASK)?;
    Ok(size.unwrap_or(0))
}
