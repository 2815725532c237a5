//! Single memories: read and delete. [`library`](super::library) lists them, [`edit`](super::edit) changes and [`import`](super::import)
//! restores them.

pub use store::memory::Memory;

use domain::ids::{MemoryId, UserAccountId};
use domain::live::Live;
use knowledge::Pipeline;
use store::StoreError;
use store::memory::{MemoryQuota, MemoryScope, Unlink};

use super::access::KnowledgeAccess;
use super::refusal::Refusal;
use super::spaces::LISTED_MAX;
use crate::config::Settings;
use crate::services::Ports;

/// Lists, reads, changes, imports and deletes memories. Clones share the database.
#[derive(Debug, Clone)]
pub struct Memories {
    pub(super) ports: Ports,
    pub(super) pipeline: Pipeline,
    pub(super) limits: Live<MemoryLimits>,
}

/// Limits of memories, from `[knowledge]`.
#[derive(Debug, Clone)]
pub struct MemoryLimits {
    /// How much an account may keep.
    pub quota: MemoryQuota,
    /// Tags of a memory.
    pub tags_max: usize,
    /// Spaces that a request may name.
    pub spaces_max: usize,
    /// Bytes of the text of a note.
    pub note_bytes_max: usize,
    /// Bytes of the text of an imported memory: as many as a page may have.
    pub text_bytes_max: usize,
    /// Lines of an import.
    pub import_lines_max: usize,
}

impl MemoryLimits {
    /// The limits of these settings.
    pub fn new(settings: &Settings) -> Self {
        let knowledge = &settings.knowledge;
        Self {
            quota: settings.memory_quota(),
            tags_max: knowledge.tags_per_memory_max,
            spaces_max: knowledge.batch.spaces_max,
            note_bytes_max: knowledge.batch.note_bytes_max,
            text_bytes_max: knowledge.batch.note_bytes_max.max(knowledge.extract.markdown_bytes_max),
            import_lines_max: knowledge.import.lines_max,
        }
    }
}

impl Memories {
    /// Memories of the store in `ports`; `pipeline` cuts and embeds new texts.
    pub fn new(ports: Ports, pipeline: Pipeline, limits: Live<MemoryLimits>) -> Self {
        Self { ports, pipeline, limits }
    }

    /// A memory that the party may read, with the spaces that are visible to it.
    #[boxed]
    pub async fn find(&self, access: &KnowledgeAccess, id: MemoryId) -> Result<Memory, Refusal> {
        let store = &self.ports.store;
        let own = self.scope(access).await?;
        if let Some(memory) = store.memory_by_id(id, &own).await? {
            return Ok(memory);
        }
        // The account may read memories of other accounts in spaces that it is a member of.
        let spaces = store.spaces_of_account(&access.account, LISTED_MAX).await?;
        let mut spaces: Vec<_> =
            spaces.into_iter().map(|space| space.id).filter(|space| access.covers(*space)).collect();
        // A search in a public space finds its memories, so they are readable too.
        if access.within.is_none() {
            spaces.extend(store.spaces_public_of(id).await?);
        }
        let scope = MemoryScope::Spaces(spaces);
        let mut memory = store.memory_by_id(id, &scope).await?.ok_or(Refusal::NotFound)?;
        // The other spaces of the memory are private to its owner.
        if let MemoryScope::Spaces(spaces) = scope {
            memory.spaces.retain(|space| spaces.contains(space));
        }
        Ok(memory)
    }

    /// The memories of an account among `ids`, without their texts.
    #[boxed]
    pub async fn of_account(&self, ids: &[MemoryId], account: &UserAccountId) -> Result<Vec<Memory>, StoreError> {
        self.ports.store.memories_by_id(ids, &MemoryScope::Account(account.clone()), 1).await
    }

    /// Number of memories of an account.
    #[boxed]
    pub async fn kept(&self, account: &UserAccountId) -> Result<u64, StoreError> {
        self.ports.store.memories_kept(account).await
    }

    /// The same; `None` while a separate database of the memory is away.
    #[boxed]
    pub async fn kept_if_reachable(&self, account: &UserAccountId) -> Result<Option<u64>, StoreError> {
        self.ports.store.if_reachable(self.kept(account)).await
    }

    /// Deletes a memory of the account. A key for certain spaces removes it from those spaces, and deletes it if it is in no other.
    #[boxed]
    pub async fn delete(&self, access: &KnowledgeAccess, id: MemoryId) -> Result<(), Refusal> {
        let memory = self.find(access, id).await?;
        let (store, account, within) = (self.ports.store.clone(), access.account.clone(), access.within.clone());
        let deleted = actors::detached(async move {
            match within {
                Some(spaces) => Ok(store.memory_unlink(memory.id, &account, &spaces).await? != Unlink::NotThere),
                None => store.memory_delete(memory.id, &account).await,
            }
        });
        if deleted.await?? { Ok(()) } else { Err(Refusal::NotFound) }
    }

    /// Everything that a search without named spaces covers.
    #[boxed]
    pub async fn scope(&self, access: &KnowledgeAccess) -> Result<MemoryScope, Refusal> {
        access.to_search(&[], &self.ports).await
    }
}
