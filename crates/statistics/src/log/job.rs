//! Input and results of the operations that change the log: appending events, and sequencing them.

use std::sync::Arc;

use domain::chain::{ChainRefusal, Position};
use domain::ids::ReceiptId;
use domain::log_part::LogPart;
use domain::{Digest, Timestamp};
use http::StatusCode;
use serde_json::json;

use super::error::LogError;
use crate::contract::{Passed, Submission, SubmitOutcome, Unavailable};
use proofs::leaf::{Leaf, VERSION};
use proofs::merkle;

/// Receives the outcome of one event, possibly on the thread of the writer: it must not block.
pub type AppendReply = Box<dyn FnOnce(Result<AppendOutcome, Arc<LogError>>) + Send>;

/// An event to append.
#[derive(Debug, Clone)]
pub struct Append {
    submission: Submission,
    receipt: ReceiptId,
    received_at: Timestamp,
}

impl Append {
    /// `receipt` is assigned to the event if it is new.
    pub fn new(submission: Submission, receipt: ReceiptId, received_at: Timestamp) -> Self {
        Self { submission, receipt, received_at }
    }

    /// The part of the log that takes the event.
    pub fn part(&self) -> LogPart {
        self.submission.part
    }

    pub(super) fn submission(&self) -> &Submission {
        &self.submission
    }

    /// The receipt that a new event gets.
    pub(super) fn receipt(&self) -> ReceiptId {
        self.receipt
    }

    pub(super) fn received_at(&self) -> Timestamp {
        self.received_at
    }

    pub(super) fn leaf_hash(&self) -> Digest {
        let event = &self.submission;
        let Position { chain_epoch, seq, prev } = event.position;
        let leaf = Leaf {
            agent_id: event.agent_id.as_str().into(),
            chain_epoch,
            event_id: event.event_id,
            machine_id: event.machine,
            prev,
            receipt_id: self.receipt,
            received_at_ms: self.received_at.timestamp_millis(),
            self_hash: event.seal,
            seq,
            v: VERSION,
        };
        merkle::leaf_hash(&leaf.bytes())
    }
}

/// The result of appending one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppendOutcome {
    /// Appended now or earlier.
    Receipt(ReceiptId),
    /// Another event has this id: 409 `event_id_conflict`.
    EventIdConflict,
    /// Another process has locked the chain or has moved it repeatedly; nothing was written: 424.
    Busy,
    /// The event does not continue its chain: 409 or 422, with the expected position.
    Refused {
        /// The violated rule of the chain.
        refusal: ChainRefusal,
        /// The position that the event claimed.
        received: Position,
    },
}

impl From<AppendOutcome> for SubmitOutcome {
    fn from(outcome: AppendOutcome) -> Self {
        match outcome {
            AppendOutcome::Receipt(receipt) => Self::Receipt(receipt),
            AppendOutcome::Busy => Self::Unavailable(Unavailable::ChainBusy),
            AppendOutcome::EventIdConflict => {
                Self::PassThrough(Passed::json(StatusCode::CONFLICT, &json!({ "error": "event_id_conflict" })))
            }
            AppendOutcome::Refused { refusal, received } => {
                let status = match refusal {
                    ChainRefusal::Conflict { .. } => StatusCode::CONFLICT,
                    ChainRefusal::Broken { .. } => StatusCode::UNPROCESSABLE_ENTITY,
                };
                let body =
                    json!({ "error": refusal.to_string(), "expected": refusal.expected(), "received": received });
                Self::PassThrough(Passed::json(status, &body))
            }
        }
    }
}

/// The result of one sequencing pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequenced {
    /// Number of events that got their places.
    pub added: u32,
    /// Number of leaves in the signed tree.
    pub tree_size: u64,
}
