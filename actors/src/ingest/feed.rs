//! The stream of one batch, as one reader hears it.

use domain::batch::{Journal, Message, MessageId};
use domain::ids::BatchId;

use super::Ingestion;
use super::batch::JournalReceiver;
use crate::infra_error::InfraError;

/// What is still to be told of a batch. Nothing is kept for it: it reads the journal when its reader is ready for more.
#[derive(Debug)]
pub struct BatchStreamReader {
    /// Where the journal is found again when the actor behind it is gone.
    ingestion: Ingestion,
    batch: BatchId,
    next: u32,
    told: JournalReceiver,
}

impl BatchStreamReader {
    pub(super) fn new(ingestion: Ingestion, batch: BatchId, next: u32, told: JournalReceiver) -> Self {
        Self { ingestion, batch, next, told }
    }

    /// The batch.
    pub fn batch(&self) -> BatchId {
        self.batch
    }

    /// The next message, with its id; `None` after the last one. An error means that the reader should join again later.
    pub async fn next(&mut self) -> Result<Option<(MessageId, String)>, InfraError> {
        self.next_with(|_, message| message.data()).await
    }

    /// The next message as `tell` puts it, who sees everything that is known by then.
    pub async fn next_with<T>(
        &mut self,
        tell: impl Fn(&Journal, &Message<'_>) -> T,
    ) -> Result<Option<(MessageId, T)>, InfraError> {
        loop {
            if let Some(message) = self.ready_with(&tell) {
                return Ok(Some(message));
            }
            if self.told.borrow().has_ended() {
                return Ok(None);
            }
            if self.told.changed().await.is_err() {
                // The actor is gone. What it told last may not have been seen yet; otherwise somebody else goes on.
                if self.told.borrow().has_ended() || self.told.borrow().message(self.next).is_some() {
                    continue;
                }
                let Some(told) = self.ingestion.follow(self.batch).await? else { return Ok(None) };
                self.told = told;
            }
        }
    }

    /// The next message, if it is known already.
    pub fn ready(&mut self) -> Option<(MessageId, String)> {
        self.ready_with(|_, message| message.data())
    }

    fn ready_with<T>(&mut self, tell: impl Fn(&Journal, &Message<'_>) -> T) -> Option<(MessageId, T)> {
        let told = {
            let journal = self.told.borrow_and_update();
            tell(&journal, &journal.message(self.next)?)
        };
        let id = MessageId { batch: self.batch, seq: self.next };
        self.next += 1;
        Some((id, told))
    }
}
