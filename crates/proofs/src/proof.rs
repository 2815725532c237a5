//! Audit proofs, and their verification by a third party: offline, with the proof and a pinned key
//! (`docs/decisions/0012-tree-and-proofs.md`).
//!
//! Each step depends on the previous ones:
//!
//! 1. the proof names the pinned key;
//! 2. the canonical bytes hash to `self`, and agree with the members of the proof;
//! 3. the leaf is exactly these members;
//! 4. the checkpoint is signed by the pinned key, and has the size and root that the proof names;
//! 5. the leaf's hash leads along the path to that root.

use std::fmt::Display;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use domain::chain::{Position, Prev};
use domain::ids::{EventId, MachineUuid, ReceiptId};
use domain::{Digest, canonical};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::leaf::{self, Leaf};
use crate::merkle::{self, PathFault};
use domain::checkpoint::{Checkpoint, NoteFault, VerifierKey};

/// The version of the proof's form; only one exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProofSchema {
    /// `audit-proof/v1`.
    #[serde(rename = "audit-proof/v1")]
    V1,
}

/// Whether the signed tree contains the event yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProofStatus {
    /// The signed tree contains the event.
    Included,
    /// The event is in the log; the next checkpoint will include it.
    Pending,
}

/// How the seal is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HashAlg {
    /// SHA-256 of the RFC 8785 bytes of the envelope without `hash_chain.self`.
    #[serde(rename = "sha256-jcs-v1")]
    Sha256JcsV1,
}

/// Position of the event in its chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProofChain {
    /// UUID of the computer that recorded the event.
    pub machine_id: MachineUuid,
    /// Agent kind of the chain.
    pub agent_id: String,
    /// Chain epoch, from 0.
    pub chain_epoch: u64,
    /// Sequence number in the epoch.
    pub seq: u64,
    /// Link to the previous event of the chain.
    pub prev: Prev,
    /// The event with the seal `prev`; null for the first event. Informative: the tree commits to the seal only.
    pub prev_event_id: Option<EventId>,
}

/// The response to `GET /v1/audit/verify`. Members about the tree are null while `status` is `pending`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditProof {
    /// `audit-proof/v1`.
    pub schema: ProofSchema,
    /// `included` or `pending`.
    pub status: ProofStatus,
    /// Event id, chosen by the sender.
    pub event_id: EventId,
    /// Receipt id, chosen by the log.
    pub receipt_id: ReceiptId,
    /// `sha256-jcs-v1`.
    pub hash_alg: HashAlg,
    /// The canonical bytes of the event, in base64.
    pub canonical_b64: String,
    /// The seal: SHA-256 of the canonical bytes.
    #[serde(rename = "self")]
    pub self_hash: Digest,
    /// Position in the chain.
    pub chain: ProofChain,
    /// Bytes of the leaf, in base64.
    pub leaf_b64: String,
    /// Hash of the leaf (RFC 6962, section 2.1).
    pub leaf_hash: Digest,
    /// Index of the leaf in the tree, from 0.
    pub leaf_index: Option<u64>,
    /// Number of leaves in the signed tree.
    pub tree_size: Option<u64>,
    /// Root of the signed tree.
    pub root_hash: Option<Digest>,
    /// Hashes from the leaf to the root, nearest sibling first.
    pub inclusion_path: Option<Vec<Digest>>,
    /// Text of the signed note; absent while the event is pending.
    pub checkpoint: Option<String>,
    /// Verifier key of the checkpoint.
    pub vkey: String,
}

/// The result of a verified proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Event id, chosen by the sender.
    pub event_id: EventId,
    /// Receipt id, chosen by the log.
    pub receipt_id: ReceiptId,
    /// UUID of the computer that recorded the event.
    pub machine_id: MachineUuid,
    /// Agent kind of the chain.
    pub agent_id: String,
    /// Position in the chain.
    pub position: Position,
    /// `hash_chain.self`: SHA-256 of the canonical bytes.
    pub self_hash: Digest,
    /// Time at which the server received the event, in milliseconds since 1970.
    pub received_at_ms: i64,
    /// Index of the leaf in the tree, from 0.
    pub leaf_index: u64,
    /// The signed checkpoint.
    pub checkpoint: Checkpoint,
}

/// Why a proof was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProofFault {
    /// The text is not a proof of this schema.
    #[error("{member}: {detail}")]
    Unreadable {
        /// Path of the member, with dots; empty for the whole text.
        member: String,
        /// The expected value.
        detail: String,
    },
    /// A member with a wrong value.
    #[error("{member}: expected {expected}, found {found}")]
    Differs {
        /// Path of the member, with dots.
        member: &'static str,
        /// The value that follows from the earlier members.
        expected: String,
        /// The value in the proof.
        found: String,
    },
    /// The inclusion path does not lead to the root.
    #[error("inclusion_path: {0}")]
    Path(PathFault),
    /// The checkpoint does not open under the pinned key.
    #[error("checkpoint: {0}")]
    Checkpoint(NoteFault),
    /// All other checks succeed, but the signed tree does not include the event yet.
    #[error("status: the event is pending: it was taken, but no checkpoint holds it yet")]
    Pending,
}

impl ProofFault {
    /// Path of the faulty member, with dots: `chain.prev`.
    pub fn member(&self) -> &str {
        match self {
            Self::Unreadable { member, .. } => member,
            Self::Differs { member, .. } => member,
            Self::Path(_) => "inclusion_path",
            Self::Checkpoint(_) => "checkpoint",
            Self::Pending => "status",
        }
    }
}

impl AuditProof {
    /// Parses a proof without verifying it.
    pub fn parse(text: &[u8]) -> Result<Self, ProofFault> {
        let mut json = serde_json::Deserializer::from_slice(text);
        let proof = serde_path_to_error::deserialize(&mut json).map_err(|error| ProofFault::Unreadable {
            member: error.path().to_string(),
            detail: error.inner().to_string(),
        })?;
        json.end().map_err(|error| unreadable("", &error))?;
        Ok(proof)
    }

    fn position(&self) -> Position {
        Position { chain_epoch: self.chain.chain_epoch, seq: self.chain.seq, prev: self.chain.prev }
    }
}

/// Verifies a proof against a pinned key, without any other input.
pub fn verify(proof: &AuditProof, pinned: &VerifierKey) -> Result<Verified, ProofFault> {
    equal("vkey", &pinned.to_string(), &proof.vkey)?;
    verify_event(proof)?;
    let leaf = verify_leaf(proof)?;
    if proof.status == ProofStatus::Pending {
        return Err(ProofFault::Pending);
    }
    let index = *required("leaf_index", proof.leaf_index.as_ref())?;
    let size = *required("tree_size", proof.tree_size.as_ref())?;
    let root = required("root_hash", proof.root_hash.as_ref())?;
    let path = required("inclusion_path", proof.inclusion_path.as_ref())?;
    let note = required("checkpoint", proof.checkpoint.as_ref())?;
    let checkpoint = pinned.open(note).map_err(ProofFault::Checkpoint)?;
    equal("tree_size", &checkpoint.size, &size)?;
    equal("root_hash", &checkpoint.root, root)?;
    merkle::verify_inclusion(&proof.leaf_hash, index, size, path, root).map_err(|fault| match fault {
        PathFault::OutOfRange { .. } => ProofFault::Differs {
            member: "leaf_index",
            expected: format!("less than {size}"),
            found: index.to_string(),
        },
        _ => ProofFault::Path(fault),
    })?;
    Ok(Verified {
        event_id: proof.event_id,
        receipt_id: proof.receipt_id,
        machine_id: proof.chain.machine_id,
        agent_id: proof.chain.agent_id.clone(),
        position: proof.position(),
        self_hash: proof.self_hash,
        received_at_ms: leaf.received_at_ms,
        leaf_index: index,
        checkpoint,
    })
}

/// Step 2: the canonical bytes are canonical, hash to `self`, and agree with the members of the proof.
pub fn verify_event(proof: &AuditProof) -> Result<(), ProofFault> {
    let event = content(&proof.canonical_b64, &proof.self_hash)?;
    let chain = &proof.chain;
    same(&event, "event_id", "/event_id", "event_id", &proof.event_id)?;
    same(&event, "chain.machine_id", "/scope/machine_id", "scope.machine_id", &chain.machine_id)?;
    same(&event, "chain.agent_id", "/scope/agent_id", "scope.agent_id", &chain.agent_id)?;
    same(&event, "chain.chain_epoch", "/chain_epoch", "chain_epoch", &chain.chain_epoch)?;
    same(&event, "chain.seq", "/seq", "seq", &chain.seq)?;
    same(&event, "chain.prev", "/hash_chain/prev", "hash_chain.prev", &chain.prev)?;
    match (chain.prev, chain.prev_event_id) {
        (Prev::Genesis, None) | (Prev::Event(_), Some(_)) => Ok(()),
        (Prev::Genesis, Some(id)) => Err(differs("chain.prev_event_id", &"null for a beginning", &id)),
        (Prev::Event(_), None) => Err(differs("chain.prev_event_id", &"the id of the event before", &"null")),
    }
}

/// The event of canonical bytes in base64, which hash to `self_hash`.
pub(crate) fn content(canonical_b64: &str, self_hash: &Digest) -> Result<Value, ProofFault> {
    let bytes = decode("canonical_b64", canonical_b64)?;
    equal("self", &Digest::of(&bytes), self_hash)?;
    let event =
        canonical::parse_object(&bytes, bytes.len()).map_err(|malformed| unreadable("canonical_b64", &malformed))?;
    if canonical::canonical_bytes(&event) != bytes {
        return Err(unreadable("canonical_b64", &"the event is not written as RFC 8785 has it"));
    }
    Ok(Value::Object(event))
}

/// Step 3: the leaf is the canonical form of exactly the members of the proof, and hashes to `leaf_hash`.
pub fn verify_leaf(proof: &AuditProof) -> Result<Leaf<'static>, ProofFault> {
    let bytes = decode("leaf_b64", &proof.leaf_b64)?;
    let leaf: Leaf<'static> = serde_json::from_slice(&bytes).map_err(|error| unreadable("leaf_b64", &error))?;
    let expected = Leaf {
        agent_id: proof.chain.agent_id.clone().into(),
        chain_epoch: proof.chain.chain_epoch,
        event_id: proof.event_id,
        machine_id: proof.chain.machine_id,
        prev: proof.chain.prev,
        receipt_id: proof.receipt_id,
        // The only member that occurs nowhere else.
        received_at_ms: leaf.received_at_ms,
        self_hash: proof.self_hash,
        seq: proof.chain.seq,
        v: leaf::VERSION,
    };
    let expected = expected.bytes();
    if bytes != expected {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        return Err(differs("leaf_b64", &text(&expected), &text(&bytes)));
    }
    equal("leaf_hash", &merkle::leaf_hash(&bytes), &proof.leaf_hash)?;
    Ok(leaf)
}

/// Checks that `member` of the proof equals the value of the event at `pointer`.
pub(crate) fn same(
    event: &Value,
    member: &'static str,
    pointer: &str,
    name: &str,
    found: &impl Serialize,
) -> Result<(), ProofFault> {
    let said =
        event.pointer(pointer).ok_or_else(|| unreadable("canonical_b64", &format!("the event has no {name}")))?;
    let found = serde_json::to_value(found).map_err(|error| unreadable(member, &error))?;
    equal(member, said, &found)
}

pub(crate) fn equal<T: PartialEq + Display>(member: &'static str, expected: &T, found: &T) -> Result<(), ProofFault> {
    if expected == found { Ok(()) } else { Err(differs(member, expected, found)) }
}

pub(crate) fn required<'p, T>(member: &'static str, value: Option<&'p T>) -> Result<&'p T, ProofFault> {
    value.ok_or_else(|| differs(member, &"a value, since the status is included", &"null"))
}

fn decode(member: &'static str, text: &str) -> Result<Vec<u8>, ProofFault> {
    BASE64_STANDARD.decode(text).map_err(|error| unreadable(member, &format!("expected base64: {error}")))
}

pub(crate) fn differs(member: &'static str, expected: &impl ToString, found: &impl ToString) -> ProofFault {
    ProofFault::Differs { member, expected: expected.to_string(), found: found.to_string() }
}

pub(crate) fn unreadable(member: &str, detail: &impl ToString) -> ProofFault {
    ProofFault::Unreadable { member: member.to_owned(), detail: detail.to_string() }
}

#[cfg(test)]
mod tests;
