//! Batches: add items, rejoin the stream of a batch, cancel it (`docs/decisions/0024-batches.md`).

pub use store::batch::{Batch, BatchSummary};

use actors::InfraError;
use actors::ingest::{AddedBatch, BatchSettings, BatchStreamReader, Ingestion, Repeatable, Submission};
use domain::batch::{BatchKind, Item, MessageId};
use domain::ids::{BatchId, UserAccountId};
use domain::live::Live;
use store::StoreError;
use store::batch::BatchAccess;
use uuid::Uuid;

use super::access::KnowledgeAccess;
use super::import::ImportLines;
use super::refusal::Refusal;
use crate::services::Ports;

/// Starts, rejoins and cancels batches. Clones share the actors.
#[derive(Debug, Clone)]
pub struct Batches {
    ports: Ports,
    ingestion: Ingestion,
    settings: Live<BatchSettings>,
}

impl Batches {
    /// `settings` is the section `[knowledge.batch]`.
    pub fn new(ports: Ports, ingestion: Ingestion, settings: Live<BatchSettings>) -> Self {
        Self { ports, ingestion, settings }
    }

    /// Maximum size of a note, in bytes.
    pub fn note_bytes_max(&self) -> usize {
        self.settings.get().note_bytes_max
    }

    /// A batch of an account.
    #[boxed]
    pub async fn of_account(&self, id: BatchId, account: &UserAccountId) -> Result<Option<Batch>, StoreError> {
        self.ports.store.batch_by_id(id, Some(account)).await
    }

    /// The newest batches of an account.
    #[boxed]
    pub async fn list(&self, account: &UserAccountId, rows_max: usize) -> Result<Vec<BatchSummary>, StoreError> {
        self.ports.store.batches_of_account(account, rows_max).await
    }

    /// Stores a batch and starts its work. Returns the stream of its messages; for a `repeat` of an earlier request, the stream of that
    /// batch.
    #[boxed]
    pub async fn add(
        &self,
        access: &KnowledgeAccess,
        items: Vec<Item>,
        named: &[Uuid],
        repeat: Option<Repeatable>,
    ) -> Result<BatchStreamReader, Refusal> {
        self.check(&items, named)?;
        let spaces = access.to_write(named, &self.ports).await?;
        self.submit(access, BatchKind::Batch, ImportLines { items, spaces }, repeat).await
    }

    /// Stores an import and starts its work. Returns the stream of its messages, with one message for each line, in order. The same lines
    /// join their import while it runs.
    #[boxed]
    pub async fn import(
        &self,
        access: &KnowledgeAccess,
        lines: ImportLines,
        repeat: Repeatable,
    ) -> Result<BatchStreamReader, Refusal> {
        self.submit(access, BatchKind::Import, lines, Some(repeat)).await
    }

    async fn submit(
        &self,
        access: &KnowledgeAccess,
        kind: BatchKind,
        ImportLines { items, spaces }: ImportLines,
        repeat: Option<Repeatable>,
    ) -> Result<BatchStreamReader, Refusal> {
        let KnowledgeAccess { account, within, .. } = access.clone();
        let (ingestion, submission) =
            (self.ingestion.clone(), Submission { kind, account, spaces, key_spaces: within, items, repeat });
        let work = async move {
            match ingestion.add(&submission).await? {
                // The actor also starts if the client disconnects now.
                AddedBatch::New(batch) => Ok((ingestion.join(&batch, None).await?, AddedBatch::New(batch))),
                other => Ok::<_, InfraError>((None, other)),
            }
        };
        match actors::detached(work).await?? {
            (stream, AddedBatch::New(_)) => stream.ok_or(Refusal::NotFound),
            (_, AddedBatch::Known(batch)) if batch.spaces.iter().all(|space| access.covers(*space)) => {
                self.ingestion.join(&batch, None).await?.ok_or(Refusal::NotFound)
            }
            (_, AddedBatch::Known(_)) => Err(Refusal::SpaceForbidden),
            (_, AddedBatch::KeyReused) => Err(Refusal::KeyReused),
            (_, AddedBatch::TooMany) => Err(Refusal::TooManyBatches { retry_after: self.settings.get().heartbeat }),
        }
    }

    /// The limits of one batch.
    fn check(&self, items: &[Item], named: &[Uuid]) -> Result<(), Refusal> {
        let rule = |is_valid: bool, path: &str, rule: String| {
            if is_valid { Ok(()) } else { Err(Refusal::invalid(path, rule)) }
        };
        rule(!items.is_empty(), "", "supply urls, contents, or both".to_owned())?;
        let settings = self.settings.get();
        let most = settings.items_max;
        rule(items.len() <= most, "", format!("a batch has at most {most} items, and this one has {}", items.len()))?;
        let most = settings.spaces_max;
        rule(named.len() <= most, "spaces", format!("must name at most {most}"))?;
        let notes = items.iter().filter_map(|item| match item {
            Item::Note { content, .. } => Some(content),
            _ => None,
        });
        for (nth, content) in notes.enumerate() {
            let path = format!("contents[{nth}].content");
            let most = settings.note_bytes_max;
            rule(content.len() <= most, &path, format!("must have at most {most} bytes, and has {}", content.len()))?;
        }
        Ok(())
    }

    /// The stream of a batch: after the message that the client received last, otherwise after number `after`, otherwise from the first
    /// message.
    #[boxed]
    pub async fn join(
        &self,
        access: &KnowledgeAccess,
        id: BatchId,
        last_received: Option<MessageId>,
        after: Option<u32>,
    ) -> Result<BatchStreamReader, Refusal> {
        let after = match last_received {
            Some(last) if last.batch != id => {
                return Err(Refusal::invalid("Last-Event-ID", "belongs to another batch"));
            }
            Some(last) => Some(last.seq),
            None => after,
        };
        let batch = self.visible(access, id).await?;
        self.ingestion.join(&batch, after).await?.ok_or(Refusal::NotFound)
    }

    /// Cancels a batch; a batch that has ended does not change.
    #[boxed]
    pub async fn cancel(&self, access: &KnowledgeAccess, id: BatchId) -> Result<(), Refusal> {
        if self.visible(access, id).await?.is_running {
            let (ingestion, account) = (self.ingestion.clone(), access.account.clone());
            actors::detached(async move { ingestion.cancel(id, &account).await }).await??;
        }
        Ok(())
    }

    /// A batch of the account. Its messages name content of all its spaces, so a key must cover them all.
    async fn visible(&self, access: &KnowledgeAccess, id: BatchId) -> Result<BatchAccess, Refusal> {
        let batch = self.ports.store.batch_access(id, &access.account).await?;
        let visible = batch.filter(|batch| batch.spaces.iter().all(|space| access.covers(*space)));
        visible.ok_or(Refusal::NotFound)
    }
}
