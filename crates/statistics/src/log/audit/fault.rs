//! The result of an audit.

use domain::Digest;
use domain::chain::Position;
use domain::ids::EventId;
use uuid::Uuid;

use crate::log::error::LogError;
use domain::checkpoint::{Checkpoint, NoteFault};
use proofs::merkle::tile::TileId;
use proofs::proof::ProofFault;

/// The result of an audit that found no fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audited {
    /// Number of events, including those without a place in the tree.
    pub events: u64,
    /// Number of chains, one for each agent kind on a computer.
    pub chains: u64,
    /// The signed checkpoint.
    pub checkpoint: Checkpoint,
    /// Verifier key of the checkpoint.
    pub vkey: String,
}

/// The first fault that an audit found.
#[derive(Debug, thiserror::Error)]
pub enum AuditFault {
    /// Reading the log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The row of an event cannot be read.
    #[error("event {event}: {fault}")]
    Row {
        /// Id of the faulty event.
        event: EventId,
        /// The fault that was found.
        fault: LogError,
    },
    /// An event disagrees with its seal, its leaf or its row.
    #[error("event {event}: {fault}")]
    Event {
        /// Id of the faulty event.
        event: EventId,
        /// The fault that was found.
        fault: ProofFault,
    },
    /// An event does not continue its chain.
    #[error("event {event} does not continue its chain: expected epoch {}, seq {}, after {}", .expected.chain_epoch, .expected.seq, .expected.prev)]
    Link {
        /// Id of the faulty event.
        event: EventId,
        /// The position that continues the chain.
        expected: Position,
    },
    /// The stored head of a chain is not its last event, or one of the two is missing.
    #[error("the head of the chain of {agent_id} on {machine_id} is not its last event")]
    Head {
        /// Computer of the chain.
        machine_id: Uuid,
        /// Agent kind of the chain.
        agent_id: String,
    },
    /// Places have a gap, or the signed size exceeds the number of events with a place.
    #[error("no event has place {0} in the tree")]
    Place(u64),
    /// An event is not queued for a place, so no later event of its chain gets one in order.
    #[error("event {0} is neither in the tree nor queued for a place in it")]
    Unqueued(EventId),
    /// The stored tile disagrees with the leaves under it.
    #[error("tile {0} disagrees with the events under it")]
    Tile(TileId),
    /// The tree of the events is not the signed one.
    #[error("the events make the root {found}, and {signed} was signed")]
    Root {
        /// Root of the events.
        found: Digest,
        /// Signed root.
        signed: Digest,
    },
    /// An index has other entries than the events yield.
    #[error("{0} does not have the events that are indexed, each once")]
    Index(&'static str),
    /// The checkpoint does not open, or names another size or root than the tree.
    #[error("the checkpoint: {0}")]
    Checkpoint(String),
}

impl From<NoteFault> for AuditFault {
    fn from(fault: NoteFault) -> Self {
        Self::Checkpoint(fault.to_string())
    }
}
