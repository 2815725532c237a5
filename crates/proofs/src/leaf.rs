//! The leaf of an event, to which the log commits (`docs/decisions/0012-tree-and-proofs.md`).

use std::borrow::Cow;

use domain::Digest;
use domain::chain::Prev;
use domain::ids::{EventId, MachineUuid, ReceiptId};
use serde::{Deserialize, Serialize};

/// Version of leaves; only version 1 exists.
pub const VERSION: u8 = 1;

/// A leaf of the tree: the event's position in its chain, its seal, its receipt and the time of receipt. No payload.
///
/// The members are in the order of RFC 8785 and contain no floating-point number, so their plain JSON is canonical.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leaf<'a> {
    /// Agent kind, `scope.agent_id` of the envelope.
    pub agent_id: Cow<'a, str>,
    /// Epoch of the chain.
    pub chain_epoch: u64,
    /// Event id, chosen by the sender.
    pub event_id: EventId,
    /// Computer, `scope.machine_id` of the envelope.
    pub machine_id: MachineUuid,
    /// Link to the previous event of the chain.
    pub prev: Prev,
    /// Receipt id, chosen by the log.
    pub receipt_id: ReceiptId,
    /// Time at which the server received the event, in milliseconds since 1970.
    pub received_at_ms: i64,
    /// `hash_chain.self`: SHA-256 of the canonical bytes.
    #[serde(rename = "self")]
    pub self_hash: Digest,
    /// Sequence number in the epoch.
    pub seq: u64,
    /// Version of the leaf, [`VERSION`].
    pub v: u8,
}

impl Leaf<'_> {
    /// The canonical bytes, which the tree hashes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(512);
        // Writing plain members to memory cannot fail.
        let _ = serde_json::to_writer(&mut bytes, self);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use domain::{Rng, Timestamp};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_leaf_is_written_as_rfc_8785_has_it(
            agent_id: String, chain_epoch in 0..1_u64 << 53, seq in 0..1_u64 << 53, received_at_ms in 0..1_i64 << 53,
            genesis: bool,
        ) {
            let rng = Rng::seeded(seq);
            let uuid = || rng.uuid_v7(Timestamp::UNIX_EPOCH);
            let leaf = Leaf {
                agent_id: agent_id.into(), chain_epoch, event_id: uuid().into(), machine_id: uuid().into(),
                prev: if genesis { Prev::Genesis } else { Prev::Event(Digest::of(b"before")) },
                receipt_id: uuid().into(), received_at_ms, self_hash: Digest::of(b"this"), seq, v: VERSION,
            };
            prop_assert_eq!(leaf.bytes(), serde_json_canonicalizer::to_vec(&leaf).unwrap());
            prop_assert_eq!(serde_json::from_slice::<Leaf<'_>>(&leaf.bytes()).unwrap(), leaf);
        }
    }
}
