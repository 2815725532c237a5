//! Appending events of many senders in one transaction.

use std::sync::Arc;

use domain::chain::{ChainRefusal, Position};
use domain::ids::ReceiptId;
use domain::{Digest, Timestamp};
use futures_util::future;
use http::StatusCode;
use serde_json::json;
use tokio::sync::oneshot;

use super::{Log, LogError};
use crate::contract::{Passed, Submission, SubmitOutcome};
use crate::leaf::{Leaf, VERSION};
use crate::merkle;

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

    /// The submitted event.
    pub(super) fn submission(&self) -> &Submission {
        &self.submission
    }

    /// The receipt that a new event gets.
    pub(super) fn receipt(&self) -> ReceiptId {
        self.receipt
    }

    /// Time at which the server received the event.
    pub(super) fn received_at(&self) -> Timestamp {
        self.received_at
    }

    /// Its leaf of the tree.
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
    /// The event does not continue its chain: 409 or 422, with the position that would.
    Refused {
        /// The violated rule of the chain.
        refusal: ChainRefusal,
        /// The position that it claimed.
        received: Position,
    },
}

impl From<AppendOutcome> for SubmitOutcome {
    fn from(outcome: AppendOutcome) -> Self {
        match outcome {
            AppendOutcome::Receipt(receipt) => Self::Receipt(receipt),
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

impl Log {
    /// Takes a group of events; one outcome per event, in order. New events are durable when it returns; after an error, nothing of the
    /// group is known to be.
    pub async fn append(&self, group: &[Append]) -> Result<Vec<AppendOutcome>, LogError> {
        let Some(writer) = &self.writer else { return self.append_on_postgres(group).await };
        let (events, outcomes): (Vec<_>, Vec<_>) = group
            .iter()
            .map(|event| {
                let (answer, outcome) = oneshot::channel();
                let answer: AppendReply = Box::new(move |outcome| drop(answer.send(outcome)));
                ((event.clone(), answer), outcome)
            })
            .unzip();
        writer.append(events);
        let outcomes = future::join_all(outcomes).await;
        let outcome = |outcome: Result<_, _>| outcome.unwrap_or_else(|_| Err(Arc::new(LogError::Closed)));
        outcomes.into_iter().map(|each| outcome(each).map_err(LogError::Group)).collect()
    }

    /// Appends events and answers each after the commit of its group, or with the error that prevented the commit. On SQLite it only queues
    /// them: groups form while another one is committed. On PostgreSQL the events are one group; if one of them makes the group fail, each
    /// is appended alone.
    pub async fn submit(&self, events: Vec<(Append, AppendReply)>) {
        if let Some(writer) = &self.writer {
            writer.append(events);
            return;
        }
        let (group, answers): (Vec<Append>, Vec<AppendReply>) = events.into_iter().unzip();
        match self.append_on_postgres(&group).await {
            Ok(outcomes) => outcomes.into_iter().zip(answers).for_each(|(outcome, answer)| answer(Ok(outcome))),
            Err(error) if error.is_unavailable() || group.len() == 1 => {
                let error = Arc::new(error);
                for answer in answers {
                    answer(Err(Arc::clone(&error)));
                }
            }
            Err(error) => {
                tracing::warn!(
                    items = group.len(),
                    error = domain::reasons(&error),
                    "a group of events was not committed; each is tried alone"
                );
                for (event, answer) in group.iter().zip(answers) {
                    let alone = self.append_on_postgres(std::slice::from_ref(event)).await;
                    let outcome = alone.map(|mut outcomes| outcomes.pop()).map_err(Arc::new);
                    answer(outcome.and_then(|outcome| outcome.ok_or_else(|| Arc::new(LogError::Contended))));
                }
            }
        }
    }

    /// Whether [`Self::submit`] only queues, so that the next group need not wait for the commit of the last one.
    pub fn queues(&self) -> bool {
        self.writer.is_some()
    }
}
