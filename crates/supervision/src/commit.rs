//! Group commit: many callers, one transaction.
//!
//! A durable write costs each caller a share of one commit instead of a whole one.
//!
//! 1. An arriving item is buffered. Once every ready task has run, a flush is put into the mailbox behind the items that arrived by then:
//!    this short wait makes groups several times larger, and each item cheaper.
//! 2. The flush commits all buffered items; during the commit the next group gathers in the mailbox.
//! 3. Callers get their replies after the commit.
//!
//! **If it crashes:** callers of buffered items get no reply and send them again; the ledger recognises items that were committed
//! nevertheless by their keys.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;

use ractor::{ActorProcessingErr, ActorRef};

use crate::causes::with_causes;
use crate::mailbox::Reply;

/// The destination of group commits.
pub trait Ledger: Clone + Send + Sync + 'static {
    /// The write of one caller.
    type Item: Send + Sync + 'static;
    /// The result of one write.
    type Outcome: Send + 'static;

    /// Commits all items in one transaction. Returns one outcome for each item, in order.
    fn commit(&self, items: &[Self::Item]) -> impl Future<Output = Result<Vec<Self::Outcome>, CommitError>> + Send;
}

/// A failed commit, which presumably committed no item.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("committing: {detail}")]
pub struct CommitError {
    /// The error of the database with its causes, for the log.
    pub detail: String,
    /// Whether the database cannot be reached. Otherwise one item may have caused the failure, and each item is committed separately.
    pub unavailable: bool,
}

/// Sent by callers with a durable write, and by the committer to itself.
pub enum CommitMessage<L: Ledger> {
    /// Commit this item; the reply follows the commit.
    Add {
        /// The write of the caller.
        item: L::Item,
        /// Receives the outcome.
        reply: Reply<Result<L::Outcome, CommitError>>,
    },
    /// Let other tasks run, then flush.
    Gather,
    /// Commit the buffered items.
    Flush,
}

impl<L: Ledger> fmt::Debug for CommitMessage<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add { .. } => "Add",
            Self::Gather => "Gather",
            Self::Flush => "Flush",
        })
    }
}

/// The actor that commits groups to a ledger.
pub struct Committer<L: Ledger> {
    ledger: L,
    batch_max: usize,
    messages: PhantomData<fn(L)>,
}

/// The items that arrived since the last commit.
pub struct CommitterState<L: Ledger> {
    items: Vec<L::Item>,
    replies: Vec<Reply<Result<L::Outcome, CommitError>>>,
}

impl<L: Ledger> Committer<L> {
    /// Commits to `ledger`, at most `batch_max` items in one transaction.
    pub fn new(ledger: L, batch_max: usize) -> Self {
        Self { ledger, batch_max, messages: PhantomData }
    }
}

#[ractor::actor(message = CommitMessage<L>, state = CommitterState<L>)]
impl<L: Ledger> Committer<L> {
    async fn pre_start(
        &self,
        _myself: ActorRef<CommitMessage<L>>,
        (): (),
    ) -> Result<CommitterState<L>, ActorProcessingErr> {
        Ok(CommitterState { items: Vec::new(), replies: Vec::new() })
    }

    #[ractor::message(CommitMessage::Add { item, reply })]
    async fn add(
        &self,
        myself: ActorRef<CommitMessage<L>>,
        item: L::Item,
        reply: Reply<Result<L::Outcome, CommitError>>,
        state: &mut CommitterState<L>,
    ) -> Result<(), ActorProcessingErr> {
        if state.items.is_empty() {
            myself.cast(CommitMessage::Gather)?;
        }
        state.items.push(item);
        state.replies.push(reply);
        if state.items.len() >= self.batch_max {
            self.flush(state).await;
        }
        Ok(())
    }

    #[ractor::message(CommitMessage::Gather)]
    async fn gather(&self, myself: ActorRef<CommitMessage<L>>) -> Result<(), ActorProcessingErr> {
        tokio::task::yield_now().await;
        Ok(myself.cast(CommitMessage::Flush)?)
    }

    #[ractor::message(CommitMessage::Flush)]
    async fn flush(&self, state: &mut CommitterState<L>) {
        if state.items.is_empty() {
            return;
        }
        let items = std::mem::take(&mut state.items);
        let replies = std::mem::take(&mut state.replies);
        match self.ledger.commit(&items).await {
            Ok(outcomes) => {
                for (reply, outcome) in replies.into_iter().zip(outcomes) {
                    reply.send(Ok(outcome));
                }
            }
            Err(error) if error.unavailable || items.len() == 1 => {
                tracing::warn!(items = items.len(), error = with_causes(&error), "a group could not be committed");
                for reply in replies {
                    reply.send(Err(error.clone()));
                }
            }
            Err(error) => {
                tracing::warn!(
                    items = items.len(),
                    error = with_causes(&error),
                    "a group could not be committed; trying each item alone"
                );
                for (item, reply) in items.iter().zip(replies) {
                    let alone = self.ledger.commit(std::slice::from_ref(item)).await;
                    let lost = || CommitError { detail: "the commit gave no outcome".into(), unavailable: true };
                    reply.send(alone.and_then(|outcomes| outcomes.into_iter().next().ok_or_else(lost)));
                }
            }
        }
    }
}
