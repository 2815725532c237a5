//! Batches of addresses and notes: accepted, run, reported (`docs/protocol/knowledge.md` and `docs/decisions/0040-batches-and-streams.md`).
//!
//! 1. A batch is committed with all its items; only then anybody hears of it. From here on it needs no client.
//! 2. Its [`BatchAdd`] is activated by the first message, by [`OrphanedBatches`] after a crash, or by whoever joins it on another node.
//! 3. The actor keeps a lease, has a few items prepared at a time, and commits what becomes of each: that alone decides.
//! 4. A [`BatchStreamReader`] tells the stream from any place on. It reads the journal at its own pace, so a slow reader holds nobody up. The journal is
//!    that of the actor, or, once the batch has ended, one that its readers share (`ended.rs`).
//!
//! **If it crashes:** the next message, or the next look for batches adrift, activates it afresh from the store. Items that were being
//! prepared are prepared again; what was committed already is found to be the same.

mod batch;
mod ended;
mod feed;
mod settings;

use std::sync::Arc;

use domain::batch::Item;
use domain::ids::{BatchId, SpaceId, UserAccountId};
use domain::{Clock, Rng};
use knowledge::Pipeline;
use store::batch::{Batch, BatchAccess, BatchCreate, NewBatch};
use store::{Store, StoreError};

pub use self::batch::{BatchAdd, BatchMessage};
use self::ended::Ended;
pub use self::feed::BatchStreamReader;
pub use self::settings::BatchSettings;
use crate::directory::{AskError, Directory};
use crate::handle::Reply;
use crate::infra_error::InfraError;
use crate::periodic::{Next, Pass, PassError};
use crate::settings::ActorSettings;

/// What the actors stand on.
#[derive(Debug)]
pub struct Dependencies {
    /// The rows.
    pub store: Store,
    /// Time.
    pub clock: Clock,
    /// Chance.
    pub rng: Rng,
    /// From bytes to meaning.
    pub pipeline: Pipeline,
    /// Limits of batches.
    pub settings: BatchSettings,
    /// Memories that one account may keep.
    pub memories_max: u32,
    /// Where notes are read again, without a slash at the end.
    pub rag_url: String,
    /// The name under which this process takes leases.
    pub runner: String,
}

/// Batches, for whoever adds.
#[derive(Debug, Clone)]
pub struct Ingestion {
    dependencies: Arc<Dependencies>,
    batches: Directory<BatchAdd>,
    ended: Arc<Ended>,
}

impl Ingestion {
    /// The actors are started by the family under [`Ingestion::batches`].
    pub fn new(dependencies: Dependencies, settings: &ActorSettings) -> Self {
        let ended = Arc::new(Ended::new(dependencies.settings.ended_bytes_max));
        Self { dependencies: Arc::new(dependencies), batches: Directory::new("batches", settings), ended }
    }

    /// The rows.
    pub fn store(&self) -> &Store {
        &self.dependencies.store
    }

    /// The living batches.
    pub fn batches(&self) -> &Directory<BatchAdd> {
        &self.batches
    }

    /// What each of them is made from.
    pub fn prototype(&self) -> BatchAdd {
        BatchAdd::new(Arc::clone(&self.dependencies))
    }

    /// Takes a batch in for these spaces, by a sender whose key covers `key_spaces` or everything, and begins to work on it; `None` when the account has as many running as it may have.
    ///
    /// Durable work: run it [`detached`](crate::detached).
    pub async fn add(
        &self,
        account: &UserAccountId,
        (spaces, key_spaces): (&[SpaceId], Option<&[SpaceId]>),
        items: &[Item],
    ) -> Result<Option<BatchStreamReader>, InfraError> {
        let Dependencies { store, clock, rng, settings, .. } = &*self.dependencies;
        let now = clock.now();
        let id = rng.uuid_v7(now).into();
        let new = NewBatch { id, account, spaces, key_spaces, items };
        if store.batch_create(&new, settings.running_max, now).await? == BatchCreate::TooMany {
            return Ok(None);
        }
        domain::failpoint!("batches.taken");
        tracing::info!(batch.id = %id, items = items.len(), "a batch was taken in");
        self.join(&BatchAccess { id, is_running: true, spaces: spaces.to_vec() }, None).await
    }

    /// The stream of a batch, after the message with this number, or from its beginning; `None` when the batch is gone. Whether the caller
    /// may hear it was decided when it was found out how it stands.
    pub async fn join(
        &self,
        standing: &BatchAccess,
        after: Option<u32>,
    ) -> Result<Option<BatchStreamReader>, InfraError> {
        let id = standing.id;
        let told = if standing.is_running { self.follow(id).await? } else { self.ended(id).await? };
        let next = after.map_or(0, |seq| seq.saturating_add(1));
        Ok(told.map(|told| BatchStreamReader::new(self.clone(), id, next, told)))
    }

    /// Asks that a batch of this account end early; `false` when there is none such that runs.
    ///
    /// Durable work: run it [`detached`](crate::detached).
    pub async fn cancel(&self, id: BatchId, account: &UserAccountId) -> Result<bool, InfraError> {
        if !self.dependencies.store.batch_cancel(id, account, self.dependencies.clock.now()).await? {
            return Ok(false);
        }
        let ask = |reply| BatchMessage::Cancel { reply };
        match self.batches.ask(&id, || self.load(id), ask, self.batches.settings().ask_deadline).await {
            // It ended meanwhile, which is what was asked for.
            Ok(()) | Err(AskError::Unknown) => Ok(true),
            Err(AskError::Load(error)) => Err(error.into()),
            // The wish is committed: whoever works on it learns of it with the next lease.
            Err(AskError::Unavailable(refusal)) => {
                tracing::debug!(batch.id = %id, error = %refusal, "a batch will hear later that it is cancelled");
                Ok(true)
            }
        }
    }

    /// The journal of a running batch, as it grows; `None` when it has ended or never was.
    async fn follow(&self, id: BatchId) -> Result<Option<batch::JournalReceiver>, InfraError> {
        let ask = |reply| BatchMessage::Join { reply };
        match self.batches.ask(&id, || self.load(id), ask, self.batches.settings().ask_deadline).await {
            Ok(told) => Ok(Some(told)),
            // Ended between two looks.
            Err(AskError::Unknown) => self.ended(id).await,
            Err(AskError::Load(error)) => Err(error.into()),
            Err(AskError::Unavailable(refusal)) => Err(refusal.into()),
        }
    }

    /// The journal of a batch that has ended; `None` when it never was.
    async fn ended(&self, id: BatchId) -> Result<Option<batch::JournalReceiver>, InfraError> {
        let read = async {
            let batch = self.dependencies.store.batch_by_id(id, None).await.map_err(Some)?;
            batch.map(|batch| batch.journal).ok_or(None::<StoreError>)
        };
        match self.ended.journal(id, read).await {
            Ok(told) => Ok(Some(told)),
            Err(None) => Ok(None),
            Err(Some(error)) => Err(error.into()),
        }
    }

    /// Only a running batch has an actor.
    async fn load(&self, id: BatchId) -> Result<Option<Batch>, StoreError> {
        Ok(self.dependencies.store.batch_by_id(id, None).await?.filter(|batch| !batch.journal.has_ended()))
    }
}

/// Looks for batches on which nobody works, most of all after a crash, and has them worked on.
#[derive(Debug, Clone)]
pub struct OrphanedBatches(pub Ingestion);

/// Batches that are looked at in one pass.
const ADRIFT_MAX: usize = 256;

impl Pass for OrphanedBatches {
    type Memory = ();

    async fn run(&self, (): &mut ()) -> Result<Next, PassError> {
        let Ingestion { dependencies, batches, .. } = &self.0;
        let adrift = dependencies.store.batches_adrift(dependencies.clock.now(), ADRIFT_MAX).await?;
        for id in adrift {
            let wake = |reply: Reply<()>| BatchMessage::Wake { reply };
            let told = batches.tell(&id, || self.0.load(id), wake, batches.settings().ask_deadline).await;
            match told {
                Ok(()) | Err(AskError::Unknown) => {}
                Err(error) => {
                    tracing::warn!(batch.id = %id, error = domain::reasons(&error), "a batch could not be taken up again");
                }
            }
        }
        Ok(Next::AfterPause)
    }
}
