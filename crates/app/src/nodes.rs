//! The nodes on one database, for operators.

use domain::Timestamp;
use domain::clock::date_time;
use domain::node::{NodeRecord, short};
use store::{Store, StoreError};
use wire::ops::NodeEntry;

/// The nodes for readers.
#[boxed]
pub async fn list(store: &Store, now: Timestamp) -> Result<Vec<NodeEntry>, StoreError> {
    Ok(store.nodes(now).await?.iter().map(described).collect())
}

fn described(node: &NodeRecord) -> NodeEntry {
    let traits = &node.traits;
    NodeEntry {
        id: traits.id,
        name: traits.name.clone(),
        address: traits.address.clone(),
        operator_address: traits.operator_address.clone(),
        status: status(node).to_owned(),
        unready: node.unready.clone(),
        version: traits.version.clone(),
        configuration: short(&traits.configuration),
        started_at: date_time(traits.started_at),
        last_beat_at: date_time(node.last_beat_at),
        clock_ahead_ms: traits.clock_ahead.num_milliseconds(),
        sequencer: node.has_sequencer,
        batches: node.batches,
    }
}

/// `ready`, `unready`, `draining` or `silent`.
pub fn status(node: &NodeRecord) -> &'static str {
    if node.is_silent() {
        "silent"
    } else if node.is_draining {
        "draining"
    } else if node.unready.is_some() {
        "unready"
    } else {
        "ready"
    }
}
