//! Builds a receipt from audit proofs.

use domain::Digest;
use domain::ids::SessionUuid;
use serde_json::Value;

use super::{
    AuditReceipt, BYTES_MAX, EVENTS_MAX, ReceiptEvent, ReceiptFault, ReceiptSchema, ReceiptSummary, TEXT_MAX,
    is_failure, is_publishable, is_word, verify,
};
use crate::merkle::TreeFault;
use crate::proof::{AuditProof, HashAlg, ProofFault, content, required, verify_event, verify_leaf};
use domain::checkpoint::VerifierKey;

/// What a receipt is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Session of all events.
    pub session_uuid: Option<SessionUuid>,
    /// Project of all events.
    pub project_id: Option<String>,
    /// Includes the canonical bytes of all events, with their content.
    pub with_content: bool,
}

/// Why no receipt was built.
#[derive(Debug, thiserror::Error)]
pub enum BuildFault {
    /// No proof was given.
    #[error("no event to write a receipt of")]
    Empty,
    /// The receipt would exceed a limit.
    #[error("the receipt would have {found} {what}, at most {limit} are allowed")]
    TooLarge {
        /// What is counted.
        what: &'static str,
        /// The limit.
        limit: usize,
        /// The count.
        found: usize,
    },
    /// A proof is wrong.
    #[error("the proof of event {event_id} does not hold")]
    Proof {
        /// Id of the event.
        event_id: domain::ids::EventId,
        /// The faulty member.
        source: ProofFault,
    },
    /// The tree does not contain a hash.
    #[error("the tree cannot be read")]
    Tree(#[from] TreeFault),
    /// The receipt does not hold: the tiles are of another tree than the checkpoint.
    #[error("the receipt would not hold")]
    Invalid(#[from] ReceiptFault),
    /// The file could not be written as JSON.
    #[error("the receipt cannot be written as JSON")]
    Unwritable(#[from] serde_json::Error),
}

/// Builds a receipt from included proofs in any order. `path` returns the inclusion path of a proof, from the index of its leaf and the size
/// of the tree of `note`, which `key` signed.
pub fn build(
    server: &str,
    key: &VerifierKey,
    note: &str,
    proofs: &[AuditProof],
    mut path: impl FnMut(&AuditProof, u64, u64) -> Result<Vec<Digest>, TreeFault>,
    selection: &Selection,
) -> Result<AuditReceipt, BuildFault> {
    if proofs.is_empty() {
        return Err(BuildFault::Empty);
    }
    if proofs.len() > EVENTS_MAX {
        return Err(BuildFault::TooLarge { what: "events", limit: EVENTS_MAX, found: proofs.len() });
    }
    let size = key.open(note).map_err(ReceiptFault::Checkpoint)?.size;
    let mut events = Vec::with_capacity(proofs.len());
    for proof in proofs {
        let mut event = event(proof, selection.with_content)
            .map_err(|source| BuildFault::Proof { event_id: proof.event_id, source })?;
        event.inclusion_path = path(proof, event.leaf_index, size)?;
        events.push(event);
    }
    events.sort_unstable_by_key(|event| event.leaf_index);
    let mut receipt = AuditReceipt {
        schema: ReceiptSchema::V1,
        hash_alg: HashAlg::Sha256JcsV1,
        server: server.to_owned(),
        vkey: key.to_string(),
        checkpoint: note.to_owned(),
        head: ReceiptSummary::of(selection.session_uuid, selection.project_id.clone(), &events),
        markdown_digest: Digest::of(&[]),
        events,
    };
    receipt.markdown_digest = Digest::of(receipt.markdown().as_bytes());
    verify(&receipt, key)?;
    let bytes = receipt.bytes()?.len();
    if bytes > BYTES_MAX {
        return Err(BuildFault::TooLarge { what: "bytes", limit: BYTES_MAX, found: bytes });
    }
    Ok(receipt)
}

/// The event of a proof, without path.
fn event(proof: &AuditProof, with_content: bool) -> Result<ReceiptEvent, ProofFault> {
    verify_event(proof)?;
    let leaf = verify_leaf(proof)?;
    let content = content(&proof.canonical_b64, &proof.self_hash)?;
    let text_at = |pointer: &str| content.pointer(pointer).and_then(Value::as_str);
    let event_type = text_at("/event_type").unwrap_or_default().to_owned();
    Ok(ReceiptEvent {
        leaf,
        leaf_index: *required("leaf_index", proof.leaf_index.as_ref())?,
        inclusion_path: Vec::new(),
        failed: is_failure(&event_type, &content),
        event_type,
        session_uuid: text_at("/scope/session_uuid").and_then(|session| session.parse().ok()),
        project_id: text_at("/scope/project_id").filter(|project| is_word(project, TEXT_MAX)).map(str::to_owned),
        canonical_b64: (with_content || is_publishable(&content)).then(|| proof.canonical_b64.clone()),
    })
}
