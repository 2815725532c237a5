//! Group commit: many callers, one transaction.
//!
//! What it guards: that a durable write costs each caller a share of one commit instead of a commit of its own.
//!
//! 1. An item that arrives is put aside. Once every task that is ready has had its turn, a flush is put into the mailbox behind whatever
//!    arrived meanwhile: a moment's patience makes groups several times larger, and each item cheaper.
//! 2. The flush commits everything put aside; during the commit the next group gathers in the mailbox.
//! 3. Callers are answered after the commit, never before.
//!
//! **If it crashes:** nobody whose item was put aside gets an answer, so nobody was told that it is safe; they send again, and what
//! had been committed after all is recognised by its own key.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;

use ractor::{ActorProcessingErr, ActorRef};

use crate::handle::Reply;

/// What a group of items is committed to.
pub trait Ledger: Clone + Send + Sync + 'static {
    /// One caller's part.
    type Item: Send + Sync + 'static;
    /// What became of it.
    type Outcome: Send + 'static;

    /// Commits all items in one transaction; one outcome per item, in order.
    fn commit(&self, items: &[Self::Item]) -> impl Future<Output = Result<Vec<Self::Outcome>, CommitError>> + Send;
}

/// Nothing of the group was committed, as far as is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("committing: {detail}")]
pub struct CommitError {
    /// What the database said, for the log.
    pub detail: String,
    /// Whether the database itself is out of reach. Otherwise one item may have spoilt it for all, and each is tried alone.
    pub unavailable: bool,
}

/// Sent by whoever needs something durable, and by the committer to itself.
pub enum CommitMessage<L: Ledger> {
    /// Commit this; the answer comes after the commit.
    Add {
        /// The caller's part.
        item: L::Item,
        /// What became of it.
        reply: Reply<Result<L::Outcome, CommitError>>,
    },
    /// Let others have their turn, then flush.
    Gather,
    /// Commit what was put aside.
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

/// The actor.
pub struct Committer<L: Ledger> {
    ledger: L,
    batch_max: usize,
    messages: PhantomData<fn(L)>,
}

/// What was put aside since the last commit.
pub struct CommitterState<L: Ledger> {
    items: Vec<L::Item>,
    replies: Vec<Reply<Result<L::Outcome, CommitError>>>,
}

impl<L: Ledger> Committer<L> {
    /// Commits to `ledger`, at most `batch_max` items at once.
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
                tracing::warn!(items = items.len(), error = %error, "a group could not be committed");
                for reply in replies {
                    reply.send(Err(error.clone()));
                }
            }
            Err(error) => {
                tracing::warn!(items = items.len(), error = %error, "a group could not be committed; trying each item alone");
                for (item, reply) in items.iter().zip(replies) {
                    let alone = self.ledger.commit(std::slice::from_ref(item)).await;
                    let lost = || CommitError { detail: "the commit gave no outcome".into(), unavailable: true };
                    reply.send(alone.and_then(|outcomes| outcomes.into_iter().next().ok_or_else(lost)));
                }
            }
        }
    }
}
