//! Audit receipts: the events of a session or a time with their leaves and paths to the root of one signed checkpoint, so that anyone can check
//! offline what an agent did (`docs/protocol/receipts.md`).
//!
//! The tree proves the leaf of each event. The type, the session, the project and a failure are in the canonical bytes, which a receipt contains
//! only if they are [publishable](is_publishable) or content is included; for other events they are stated and counted as such.

mod build;
mod fault;
mod markdown;
mod summary;
#[cfg(test)]
mod tests;
mod verify;

use domain::Digest;
use domain::ids::{EventId, SessionUuid};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::build::{BuildFault, Selection, build};
pub use self::fault::ReceiptFault;
pub use self::summary::ReceiptSummary;
pub use self::verify::verify;
use crate::leaf::Leaf;
use crate::proof::HashAlg;

/// Maximum number of events: a browser checks them in about a second, and the file stays below [`BYTES_MAX`] without content.
pub const EVENTS_MAX: usize = 2_000;

/// Maximum size of a receipt in bytes; `/verify` reads no larger file.
pub const BYTES_MAX: usize = 8 * 1024 * 1024;

/// Maximum length of a publishable text: a SHA-256 in hex, and the names that hooks record.
const TEXT_MAX: usize = 64;

/// Maximum length of an event type, which an operator's registry may choose.
const EVENT_TYPE_MAX: usize = 128;

/// The version of the form; only one exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReceiptSchema {
    /// `audit-receipt/v1`.
    #[serde(rename = "audit-receipt/v1")]
    V1,
}

/// The events of a session or a time, with their proofs against one checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditReceipt {
    /// `audit-receipt/v1`.
    pub schema: ReceiptSchema,
    /// `sha256-jcs-v1`.
    pub hash_alg: HashAlg,
    /// Base URL of the server, for the link to its page `/verify`. Stated.
    pub server: String,
    /// Verifier key of the checkpoint.
    pub vkey: String,
    /// Text of the signed note.
    pub checkpoint: String,
    /// What the receipt says about its events as a whole.
    pub head: ReceiptSummary,
    /// SHA-256 of [`AuditReceipt::markdown`].
    pub markdown_digest: Digest,
    /// The events in the order of the tree.
    pub events: Vec<ReceiptEvent>,
}

/// An event with its proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiptEvent {
    /// The leaf.
    pub leaf: Leaf<'static>,
    /// Index of the leaf in the tree, from 0.
    pub leaf_index: u64,
    /// Hashes from the leaf to the root, nearest sibling first.
    pub inclusion_path: Vec<Digest>,
    /// Type of the event.
    pub event_type: String,
    /// Whether the event reports a failure: see [`is_failure`].
    pub failed: bool,
    /// Session of the event.
    pub session_uuid: Option<SessionUuid>,
    /// Project of the event.
    pub project_id: Option<String>,
    /// Canonical bytes of the event in base64, which prove the four members above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canonical_b64: Option<String>,
}

/// A verified receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedReceipt {
    /// The signed checkpoint.
    pub checkpoint: domain::checkpoint::Checkpoint,
    /// Ids of the events, in the order of the tree.
    pub events: Vec<EventId>,
}

impl AuditReceipt {
    /// Parses a receipt without verifying it.
    pub fn parse(text: &[u8]) -> Result<Self, ReceiptFault> {
        if text.len() > BYTES_MAX {
            return Err(ReceiptFault::TooLarge { what: "bytes", limit: BYTES_MAX, found: text.len() });
        }
        let mut json = serde_json::Deserializer::from_slice(text);
        let receipt: Self = serde_path_to_error::deserialize(&mut json).map_err(|error| ReceiptFault::Unreadable {
            member: error.path().to_string(),
            detail: error.inner().to_string(),
        })?;
        json.end().map_err(|error| ReceiptFault::Unreadable { member: String::new(), detail: error.to_string() })?;
        if receipt.events.len() > EVENTS_MAX {
            return Err(ReceiptFault::TooLarge { what: "events", limit: EVENTS_MAX, found: receipt.events.len() });
        }
        Ok(receipt)
    }

    /// The bytes of the file: JSON on one line.
    pub fn bytes(&self) -> serde_json::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

/// Whether the members of an event report a failure: its type ends with `.failed`, or its payload has `succeeded` = false.
pub fn is_failure(event_type: &str, event: &Value) -> bool {
    event_type.ends_with(".failed") || event.pointer("/payload/succeeded") == Some(&Value::Bool(false))
}

/// Whether an event may be published: it declares that it has no content, and each text in it is a word of at most 64 letters, digits
/// and `_ - . :`. A path, a sentence and a redacted text are not such words.
pub fn is_publishable(event: &Value) -> bool {
    event.get("consent_level").and_then(Value::as_str) == Some("metadata-only") && has_words_only(event)
}

fn has_words_only(value: &Value) -> bool {
    match value {
        Value::String(text) => is_word(text, TEXT_MAX),
        Value::Array(values) => values.iter().all(has_words_only),
        Value::Object(members) => members.iter().all(|(name, value)| is_word(name, TEXT_MAX) && has_words_only(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

fn is_word(text: &str, length_max: usize) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte);
    !text.is_empty() && text.len() <= length_max && text.bytes().all(is_part)
}
