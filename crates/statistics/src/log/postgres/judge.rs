//! The chains of a group; judges their events against a head.

use std::collections::HashMap;

use domain::Digest;
use domain::chain::{ChainKey, Head, Position, Prev};
use domain::ids::{EventId, ReceiptId};

use crate::log::job::{Append, AppendOutcome};

/// The stored head of a chain.
#[derive(Debug, Clone, Copy)]
pub struct StoredHead {
    pub head: Head,
    /// Id of the last event.
    pub event_id: EventId,
    /// Number of updates of the row, from 1.
    pub moves: i64,
}

/// Stored events, by id.
pub type KnownEvents = HashMap<EventId, (ReceiptId, Digest)>;

/// Why a chain of a group is not settled yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsettled {
    /// The chain was not tried, or another process moved it: the next attempt follows at once.
    Moved,
    /// Another process has locked the chain: the next attempt follows after a pause.
    Locked,
    /// A statement for several chains failed because of one: the next attempt, after a pause, uses one statement per chain.
    Alone,
}

/// The events of one chain in a group.
#[derive(Debug)]
pub struct ChainPart {
    pub key: ChainKey,
    /// Places of the events in the group, in order.
    pub events: Vec<usize>,
    pub unsettled: Unsettled,
    /// Whether the head must be read from the database.
    pub reads: bool,
}

impl ChainPart {
    /// The chains of a group, each with its events, in the order of their first events.
    pub fn all(group: &[Append]) -> Vec<Self> {
        let mut parts: Vec<Self> = Vec::new();
        let mut places: HashMap<ChainKey, usize> = HashMap::new();
        for (event, append) in group.iter().enumerate() {
            let key = append.submission().chain_key();
            if let Some(part) = places.get(&key).and_then(|place| parts.get_mut(*place)) {
                part.events.push(event);
            } else {
                places.insert(key.clone(), parts.len());
                parts.push(Self { key, events: vec![event], unsettled: Unsettled::Moved, reads: false });
            }
        }
        parts
    }

    /// The ids of its events.
    pub fn ids(&self, group: &[Append]) -> impl Iterator<Item = EventId> {
        self.events.iter().filter_map(|event| Some(group.get(*event)?.submission().event_id))
    }
}

/// An event that is to be added.
#[derive(Debug)]
pub struct Addition {
    /// Its place in the group.
    pub event: usize,
    /// The previous event in its epoch.
    pub before: Option<EventId>,
}

/// The events of a chain, each judged after its predecessors.
#[derive(Debug)]
pub struct Judged {
    /// One outcome for each event of the part, valid if the additions are stored.
    pub outcomes: Vec<AppendOutcome>,
    pub additions: Vec<Addition>,
    /// The head that was judged against.
    pub from: Option<StoredHead>,
    /// The head after the additions.
    pub to: Option<(Head, EventId)>,
    /// Whether an event is refused, or conflicts with another: final only if head and ids were read.
    pub has_refusal: bool,
}

/// Judges the events of a chain against its head and the events that are stored.
pub fn judge(part: &ChainPart, group: &[Append], from: Option<StoredHead>, known: &KnownEvents) -> Judged {
    let mut to = from.map(|stored| (stored.head, stored.event_id));
    let mut judged =
        Judged { outcomes: Vec::with_capacity(part.events.len()), additions: Vec::new(), from, to, has_refusal: false };
    let mut added = KnownEvents::new();
    for (event, append) in part.events.iter().filter_map(|event| Some((*event, group.get(*event)?))) {
        let submission = append.submission();
        let id = submission.event_id;
        if let Some((receipt, seal)) = added.get(&id).or_else(|| known.get(&id)) {
            let is_same = *seal == submission.seal;
            judged.has_refusal |= !is_same;
            let same = AppendOutcome::Receipt(*receipt);
            judged.outcomes.push(if is_same { same } else { AppendOutcome::EventIdConflict });
            continue;
        }
        let received = submission.position;
        if let Err(refusal) = Head::judge(to.as_ref().map(|(head, _)| head), &received) {
            judged.has_refusal = true;
            judged.outcomes.push(AppendOutcome::Refused { refusal, received });
            continue;
        }
        let previous = to.map(|(_, event_id)| event_id).filter(|_| received.prev != Prev::Genesis);
        judged.additions.push(Addition { event, before: previous });
        let Position { chain_epoch, seq, .. } = received;
        to = Some((Head { chain_epoch, seq, self_hash: submission.seal }, id));
        added.insert(id, (append.receipt(), submission.seal));
        judged.outcomes.push(AppendOutcome::Receipt(append.receipt()));
    }
    judged.to = to;
    judged
}
