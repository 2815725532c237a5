//! Why a receipt was rejected: the place, the difference, and what to do.

use domain::Digest;
use domain::ids::EventId;

use super::{AuditReceipt, ReceiptEvent};
use crate::proof::ProofFault;
use domain::checkpoint::NoteFault;

/// Why a receipt was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReceiptFault {
    /// The text is not a receipt of this form.
    #[error("{member}: {detail}")]
    Unreadable {
        /// Path of the member, with dots; empty for the whole text.
        member: String,
        /// The expected value.
        detail: String,
    },
    /// The file exceeds a limit.
    #[error("the receipt has {found} {what}, at most {limit} are allowed")]
    TooLarge {
        /// What is counted.
        what: &'static str,
        /// The limit.
        limit: usize,
        /// The count.
        found: usize,
    },
    /// The receipt names another key than the trusted one.
    #[error("vkey: expected {expected}, found {found}")]
    Key {
        /// The trusted key.
        expected: String,
        /// The key in the receipt.
        found: String,
    },
    /// The checkpoint does not open under the trusted key.
    #[error("checkpoint: {0}")]
    Checkpoint(NoteFault),
    /// An event does not hold.
    #[error("event {number} ({event_id}): {fault}")]
    Event {
        /// Place in the receipt, from 1.
        number: usize,
        /// Id in the leaf.
        event_id: EventId,
        /// The faulty member and the difference.
        fault: ProofFault,
    },
    /// The head differs from the totals of the events.
    #[error("head.{member}: the events say {expected}, the head says {found}")]
    Head {
        /// Name of the member.
        member: &'static str,
        /// The value that follows from the events.
        expected: String,
        /// The value in the receipt.
        found: String,
    },
    /// The digest is of another Markdown.
    #[error("markdown_digest: the Markdown of this receipt has the digest {expected}, found {found}")]
    Markdown {
        /// Digest of the Markdown that follows from the receipt.
        expected: Digest,
        /// The value in the receipt.
        found: Digest,
    },
}

impl ReceiptFault {
    pub(super) fn of(number: usize, event: &ReceiptEvent, fault: ProofFault) -> Self {
        Self::Event { number, event_id: event.leaf.event_id, fault }
    }

    /// Path of the faulty member, with dots: `events[3].leaf`, the index from 0.
    pub fn member(&self) -> String {
        match self {
            Self::Unreadable { member, .. } => member.clone(),
            Self::TooLarge { what, .. } => (*what).to_owned(),
            Self::Key { .. } => "vkey".to_owned(),
            Self::Checkpoint(_) => "checkpoint".to_owned(),
            Self::Event { number, fault, .. } => format!("events[{}].{}", number - 1, fault.member()),
            Self::Head { member, .. } => format!("head.{member}"),
            Self::Markdown { .. } => "markdown_digest".to_owned(),
        }
    }

    /// What the reader of the receipt can do.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } | Self::TooLarge { .. } => {
                "pass the file that `attache receipt` wrote, complete and unchanged"
            }
            Self::Key { .. } => {
                "ask the operator of the log for its key, not through this receipt; after a new epoch the key is another one"
            }
            Self::Checkpoint(_) => {
                "the log did not sign this receipt: do not trust it, and ask its author for a new one"
            }
            Self::Event { .. } => {
                "the event was changed, added or moved: do not trust the receipt, and ask for a new one"
            }
            Self::Head { .. } => "the head was changed, or events were removed or added: ask for a new receipt",
            Self::Markdown { .. } => "the Markdown was written for another receipt: ask for a new receipt",
        }
    }
}

impl AuditReceipt {
    /// Whether a text contains the Markdown of this receipt. Line ends may be CR LF, as forges store them.
    pub fn is_in(&self, text: &str) -> bool {
        text.replace("\r\n", "\n").contains(self.markdown().trim_end())
    }
}
