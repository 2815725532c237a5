//! Batches of URLs and notes (`docs/protocol/knowledge.md` and `docs/decisions/0024-batches.md`).
//!
//! 1. A batch is committed with all its items before the response. From then on it needs no client.
//! 2. Its [`BatchAdd`] is activated by the first message, by [`OrphanedBatches`] after a crash, or by a reader on another node.
//! 3. The actor keeps a lease, has a few items prepared at a time, and commits the outcome of each, which is final.
//! 4. A [`BatchStreamReader`] reads the stream from any position. It reads the journal at its own pace, so a slow reader delays no other.
//!    The journal is the actor's, or, once the batch has ended, a cached one that readers share (`ended.rs`).
//!
//! **If it crashes:** the next message, or the next pass of [`OrphanedBatches`], starts another actor from the store. Items in preparation
//! are prepared again; committed outcomes are kept.

mod batch;
mod dependencies;
mod ended;
mod settings;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use domain::Digest;
use domain::batch::{BatchKind, Item, Journal, Message, MessageId};
use domain::ids::{BatchId, SpaceId, UserAccountId};
use domain::service_pause::ServicePart;
use store::batch::{Batch, BatchAccess, BatchCreate, IdempotencyKey, NewBatch};
use store::{Store, StoreError};
use supervision::periodic::{Next, Pass, PassError};
use supervision::{ActorSettings, AskError, Directory, Reply, Unavailable};

use self::batch::JournalReceiver;
pub use self::batch::{BatchAdd, BatchMessage, facts};
pub use self::dependencies::Dependencies;
use self::ended::Ended;
pub use self::settings::BatchSettings;
use crate::infra_error::InfraError;
use crate::kind::ActorKind;

/// Maximum bytes of cached journals of ended batches, which readers of their streams share: a few batches of the maximum size.
const ENDED_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The operations on batches.
#[derive(Debug, Clone)]
pub struct Ingestion {
    dependencies: Arc<Dependencies>,
    batches: Directory<BatchAdd>,
    ended: Arc<Ended>,
}

impl Ingestion {
    /// The actors are started by the family under [`Ingestion::batches`].
    pub fn new(dependencies: Dependencies, settings: &ActorSettings) -> Self {
        let ended = Arc::new(Ended::new(ENDED_BYTES_MAX));
        Self { dependencies: Arc::new(dependencies), batches: Directory::new(ActorKind::Batches, settings), ended }
    }

    /// The database of batches and memories.
    pub fn store(&self) -> &Store {
        &self.dependencies.store
    }

    /// Name of this process as a holder of leases.
    pub fn runner(&self) -> &str {
        &self.dependencies.runner
    }

    /// The addresses of the batch actors, for the supervisor.
    pub fn batches(&self) -> &Directory<BatchAdd> {
        &self.batches
    }

    /// The prototype that the directory clones for each batch.
    pub fn prototype(&self) -> BatchAdd {
        BatchAdd::new(Arc::clone(&self.dependencies))
    }

    /// Stores a batch and starts its work.
    ///
    /// Durable work: run it [`detached`](supervision::detached).
    #[boxed]
    pub async fn add(
        &self,
        Submission { kind, account, spaces, key_spaces, items, repeat }: &Submission,
    ) -> Result<AddedBatch, InfraError> {
        let Dependencies { store, clock, rng, settings, imports_running_max, pauses, .. } = &*self.dependencies;
        pauses.check_account(ServicePart::Batches, account)?;
        let now = clock.now();
        let id = rng.uuid_v7(now).into();
        let since = now - settings.get().idempotency_kept;
        let key = repeat.as_ref().map(|Repeatable { key, body }| IdempotencyKey { key: key.as_deref(), body, since });
        let request = supervision::current_request();
        let (key_spaces, request) = (key_spaces.as_deref(), request.as_deref());
        let new = NewBatch { id, kind: *kind, account, spaces, key_spaces, items, key, request };
        let running_max = match kind {
            BatchKind::Batch => settings.get().running_max,
            BatchKind::Import => *imports_running_max,
        };
        match store.batch_create(&new, running_max, now).await? {
            BatchCreate::TooMany => return Ok(AddedBatch::TooMany),
            BatchCreate::KeyReused => return Ok(AddedBatch::KeyReused),
            BatchCreate::Known(batch) => return Ok(AddedBatch::Known(batch)),
            BatchCreate::Created => {}
        }
        domain::failpoint!("batches.taken");
        tracing::info!(batch.id = %id, items = items.len(), "a batch was taken in");
        Ok(AddedBatch::New(BatchAccess { id, is_running: true, spaces: spaces.clone() }))
    }

    /// The stream of a batch, from the message after the given number or from the first; `None` if the batch no longer exists. The query
    /// that returned `access` checked the caller's permission.
    #[boxed]
    pub async fn join(
        &self,
        access: &BatchAccess,
        after: Option<u32>,
    ) -> Result<Option<BatchStreamReader>, InfraError> {
        let id = access.id;
        let journal = if access.is_running { self.follow(id).await? } else { self.ended(id).await? };
        let next = after.map_or(0, |seq| seq.saturating_add(1));
        Ok(journal.map(|journal| BatchStreamReader::new(self.clone(), id, next, journal)))
    }

    /// Cancels a running batch of this account; `false` if there is none.
    ///
    /// Durable work: run it [`detached`](supervision::detached).
    #[boxed]
    pub async fn cancel(&self, id: BatchId, account: &UserAccountId) -> Result<bool, InfraError> {
        if !self.dependencies.store.batch_cancel(id, Some(account), self.dependencies.clock.now()).await? {
            return Ok(false);
        }
        let ask = |reply| BatchMessage::Cancel { reply };
        match self.batches.ask(&id, || self.load(id), ask, self.batches.ask_deadline()).await {
            // The batch has ended in the meantime, as requested.
            Ok(()) | Err(AskError::Unknown) => Ok(true),
            Err(AskError::Load(error)) => Err(error.into()),
            // The cancellation is committed: the process that works on the batch reads it with the next lease.
            Err(AskError::Unavailable(refusal)) => {
                tracing::debug!(batch.id = %id, error = domain::reasons(&refusal), "a batch is cancelled with the next lease");
                Ok(true)
            }
        }
    }

    /// Releases all leases, so that another process continues, and takes no new ones. Each actor first finishes the item that is being
    /// committed.
    pub fn hand_over(&self) {
        self.dependencies.leaves.store(true, Ordering::Relaxed);
        self.batches.announce(|| BatchMessage::HandOver);
    }

    /// Hints that a cancellation was committed, so that an actor of this process ends its batch at once.
    pub fn hint_cancelled(&self, id: BatchId) {
        self.batches.hint(&id, |reply| BatchMessage::Cancel { reply });
    }

    /// Releases the lease of one batch, if an actor of this process has it.
    pub fn hand_over_batch(&self, id: BatchId) {
        self.batches.hint(&id, |_: Reply<()>| BatchMessage::HandOver);
    }

    /// The journal of a running batch, as it grows; `None` if the batch has ended or does not exist.
    async fn follow(&self, id: BatchId) -> Result<Option<JournalReceiver>, InfraError> {
        let ask = |reply| BatchMessage::Join { reply };
        match self.batches.ask(&id, || self.load(id), ask, self.batches.ask_deadline()).await {
            Ok(journal) => Ok(Some(journal)),
            // The batch ended between the two reads.
            Err(AskError::Unknown) => self.ended(id).await,
            Err(AskError::Load(error)) => Err(error.into()),
            Err(AskError::Unavailable(refusal)) => Err(refusal.into()),
        }
    }

    /// The journal of an ended batch; `None` if it does not exist.
    async fn ended(&self, id: BatchId) -> Result<Option<JournalReceiver>, InfraError> {
        let read = async {
            let batch = self.dependencies.store.batch_by_id(id, None).await.map_err(Some)?;
            batch.map(|batch| batch.journal).ok_or(None::<StoreError>)
        };
        match self.ended.journal(id, read).await {
            Ok(journal) => Ok(Some(journal)),
            Err(None) => Ok(None),
            Err(Some(error)) => Err(error.into()),
        }
    }

    /// Only a running batch has an actor.
    async fn load(&self, id: BatchId) -> Result<Option<Batch>, StoreError> {
        Ok(self.dependencies.store.batch_by_id(id, None).await?.filter(|batch| !batch.journal.has_ended()))
    }
}

/// A batch to be added.
#[derive(Debug, Clone)]
pub struct Submission {
    /// Kind of the batch.
    pub kind: BatchKind,
    /// Owner of the batch.
    pub account: UserAccountId,
    /// Target spaces of the items. A key must cover them to join the batch.
    pub spaces: Vec<SpaceId>,
    /// The spaces that the sender's key covers; `None` for all.
    pub key_spaces: Option<Vec<SpaceId>>,
    /// Its items, in their order.
    pub items: Vec<Item>,
    /// Makes the request repeatable.
    pub repeat: Option<Repeatable>,
}

/// Identifies repeated requests: the `Idempotency-Key`, and SHA-256 of the body.
#[derive(Debug, Clone)]
pub struct Repeatable {
    /// The key that the client sent. Without one, the same body joins the batch while it runs.
    pub key: Option<String>,
    /// SHA-256 of the request body.
    pub body: Digest,
}

/// The outcome of adding a batch. [`Ingestion::join`] returns the stream of [`New`](Self::New) and [`Known`](Self::Known) batches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddedBatch {
    /// The batch is stored.
    New(BatchAccess),
    /// An earlier request with the same key and body created this batch.
    Known(BatchAccess),
    /// An earlier request with the same key had another body.
    KeyReused,
    /// The account has reached its limit of running batches.
    TooMany,
}

/// The remaining messages of a batch's stream. Unbuffered: each call for the next message reads the journal.
#[derive(Debug)]
pub struct BatchStreamReader {
    /// Opens the journal again when the actor has ended.
    ingestion: Ingestion,
    batch: BatchId,
    next: u32,
    journal: JournalReceiver,
}

impl BatchStreamReader {
    fn new(ingestion: Ingestion, batch: BatchId, next: u32, journal: JournalReceiver) -> Self {
        Self { ingestion, batch, next, journal }
    }

    /// The id of the batch.
    pub fn batch(&self) -> BatchId {
        self.batch
    }

    /// Whether the reader has returned the last message.
    pub fn is_at_end(&self) -> bool {
        let journal = self.journal.borrow();
        journal.has_ended() && journal.message(self.next).is_none()
    }

    /// The next message, with its id; `None` after the last one. An error means that the reader should join again later.
    #[boxed]
    pub async fn next(&mut self) -> Result<Option<(MessageId, String)>, InfraError> {
        self.next_with(|_, message| message.data()).await
    }

    /// The next message as `render` writes it from the journal at that time.
    pub async fn next_with<T>(
        &mut self,
        render: impl Fn(&Journal, &Message<'_>) -> T,
    ) -> Result<Option<(MessageId, T)>, InfraError> {
        loop {
            if let Some(message) = self.ready_with(&render) {
                return Ok(Some(message));
            }
            if self.journal.borrow().has_ended() {
                return Ok(None);
            }
            if self.journal.changed().await.is_err() {
                // The actor has ended. Its last messages may not have been read yet; otherwise another actor continues.
                if self.journal.borrow().has_ended() || self.journal.borrow().message(self.next).is_some() {
                    continue;
                }
                let Some(journal) = self.ingestion.follow(self.batch).await? else { return Ok(None) };
                self.journal = journal;
            }
        }
    }

    /// The next message, if it is available without waiting.
    pub fn ready(&mut self) -> Option<(MessageId, String)> {
        self.ready_with(|_, message| message.data())
    }

    fn ready_with<T>(&mut self, render: impl Fn(&Journal, &Message<'_>) -> T) -> Option<(MessageId, T)> {
        let rendered = {
            let journal = self.journal.borrow_and_update();
            render(&journal, &journal.message(self.next)?)
        };
        let id = MessageId { batch: self.batch, seq: self.next };
        self.next += 1;
        Some((id, rendered))
    }
}

/// Finds running batches without a lease, as after a crash, and starts their actors.
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
            let sent = batches.send(&id, || self.0.load(id), wake, batches.ask_deadline()).await;
            match sent {
                // A quarantined batch waits for its end or release.
                Ok(()) | Err(AskError::Unknown | AskError::Unavailable(Unavailable::Quarantined { .. })) => {}
                Err(error) => {
                    tracing::warn!(batch.id = %id, error = domain::reasons(&error), "a batch could not be taken up again");
                }
            }
        }
        Ok(Next::AfterPause)
    }
}
