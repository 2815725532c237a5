//! Rules for positions in hash chains (`docs/decisions/0006-events-and-chains.md`).
//!
//! A chain is identified by (`machine_id`, `agent_id`, `chain_epoch`). Within it, `seq` counts from 0 without gaps, and
//! `prev` is the `self` of the previous event, or `GENESIS` exactly at `seq` 0. A new epoch is greater than every
//! earlier one of its machine and agent, and closes them. Only the statistics service decides: it calls [`Head::judge`]
//! on its own heads.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Digest;
use crate::ids::MachineUuid;

/// Identifies a sequence of epochs: the events of one computer and agent kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ChainKey {
    /// `scope.machine_id`.
    pub machine_id: MachineUuid,
    /// `scope.agent_id`.
    pub agent_id: String,
}

/// The link of an event: the literal `GENESIS`, or the `self` of the previous event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prev {
    /// The first event of an epoch.
    Genesis,
    /// The `self` of the previous event.
    Event(Digest),
}

impl Prev {
    /// The literal that links the first event of an epoch.
    pub const GENESIS: &'static str = "GENESIS";
}

impl fmt::Display for Prev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Genesis => f.write_str(Self::GENESIS),
            Self::Event(digest) => digest.fmt(f),
        }
    }
}

impl std::str::FromStr for Prev {
    type Err = crate::digest::NotADigest;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == Self::GENESIS { Ok(Self::Genesis) } else { text.parse().map(Self::Event) }
    }
}

impl Serialize for Prev {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Prev {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
        text.parse().map_err(|_| de::Error::custom("expected GENESIS or 64 lowercase hex characters"))
    }
}

/// A position in a chain: `expected` and `received` of a rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Epoch, counted from 0.
    pub chain_epoch: u64,
    /// Sequence number within the epoch, counted from 0.
    pub seq: u64,
    /// Link to the previous event.
    pub prev: Prev,
}

impl Position {
    /// The first position of an epoch.
    pub fn genesis(chain_epoch: u64) -> Self {
        Self { chain_epoch, seq: 0, prev: Prev::Genesis }
    }
}

/// The last accepted event of a chain key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The current epoch.
    pub chain_epoch: u64,
    /// The last accepted `seq` of the epoch.
    pub seq: u64,
    /// `self` of the last accepted event.
    pub self_hash: Digest,
}

/// Why an event does not continue its chain. Every variant carries the position that would.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChainRefusal {
    /// The position is taken, skips ahead, or belongs to a closed epoch: 409 `chain_conflict`.
    #[error("chain_conflict")]
    Conflict {
        /// The position that would be accepted.
        expected: Position,
    },
    /// The position is right but the link is wrong: 422 `chain_broken`.
    #[error("chain_broken")]
    Broken {
        /// The position that would be accepted.
        expected: Position,
    },
}

impl ChainRefusal {
    /// The position that would be accepted.
    pub fn expected(&self) -> Position {
        match self {
            Self::Conflict { expected } | Self::Broken { expected } => *expected,
        }
    }
}

impl Head {
    /// The position after this head.
    pub fn next(&self) -> Position {
        Position { chain_epoch: self.chain_epoch, seq: self.seq + 1, prev: Prev::Event(self.self_hash) }
    }

    /// Checks whether an event at `received` continues the chain with this `head`; `None` if no event was accepted yet.
    pub fn judge(head: Option<&Self>, received: &Position) -> Result<(), ChainRefusal> {
        let expected = match head {
            Some(head) if received.chain_epoch <= head.chain_epoch => head.next(),
            _ => Position::genesis(received.chain_epoch),
        };
        if (received.chain_epoch, received.seq) != (expected.chain_epoch, expected.seq) {
            Err(ChainRefusal::Conflict { expected })
        } else if received.prev != expected.prev {
            Err(ChainRefusal::Broken { expected })
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_vector_continues_its_chain_or_is_refused_as_it_says() {
        let vectors: serde_json::Value =
            serde_json::from_slice(include_bytes!("../../../tests/vectors/chain.json")).unwrap();
        let position = |event: &serde_json::Value| Position {
            chain_epoch: event["chain_epoch"].as_u64().unwrap(),
            seq: event["seq"].as_u64().unwrap(),
            prev: serde_json::from_value(event["hash_chain"]["prev"].clone()).unwrap(),
        };
        let take = |head: &mut Option<Head>, event: &serde_json::Value| -> Result<(), ChainRefusal> {
            let at = position(event);
            Head::judge(head.as_ref(), &at)?;
            let self_hash = serde_json::from_value(event["hash_chain"]["self"].clone()).unwrap();
            *head = Some(Head { chain_epoch: at.chain_epoch, seq: at.seq, self_hash });
            Ok(())
        };
        let chain = vectors["chain"].as_array().unwrap();
        let mut judged = 0;
        for variant in vectors["variants"].as_array().unwrap() {
            let Some(error @ ("chain_conflict" | "chain_broken")) = variant["error"].as_str() else { continue };
            let mut head = None;
            let after = usize::try_from(variant["after"].as_u64().unwrap()).unwrap();
            let then = variant["then"].as_array().into_iter().flatten();
            for event in chain[..after].iter().map(|link| &link["event"]).chain(then) {
                take(&mut head, event).unwrap();
            }
            let refusal = take(&mut head, &variant["event"]).unwrap_err();
            assert_eq!(refusal.to_string(), error, "{}", variant["name"]);
            if let Some(expected) = variant.get("expected") {
                assert_eq!(serde_json::to_value(refusal.expected()).unwrap(), *expected, "{}", variant["name"]);
            }
            judged += 1;
        }
        assert_eq!(judged, 7);
    }

    proptest! {
        #[test]
        fn exactly_the_next_place_and_the_first_of_a_later_epoch_are_taken(
            epoch in 0..4_u64, seq in 0..4_u64, at_epoch in 0..6_u64, at_seq in 0..6_u64, linked: bool,
        ) {
            let head = Head { chain_epoch: epoch, seq, self_hash: Digest::of(b"head") };
            let prev = if linked { Prev::Event(head.self_hash) } else { Prev::Genesis };
            let at = Position { chain_epoch: at_epoch, seq: at_seq, prev };
            let next = at_epoch == epoch && at_seq == seq + 1 && linked;
            let later = at_epoch > epoch && at_seq == 0 && !linked;
            prop_assert_eq!(Head::judge(Some(&head), &at).is_ok(), next || later);
            prop_assert_eq!(Head::judge(None, &at).is_ok(), at_seq == 0 && !linked);
        }
    }
}
