//! Changing a memory: title, text of a note, tags, spaces (`docs/protocol/knowledge.md#memories`).

use domain::ids::{MemoryId, SpaceId};
use domain::memory::{TITLE_CHARS_MAX, Tag, short_title, sorted_tags};
use knowledge::{KnownText, MemoryDraft};
use store::memory::{Edit, Memory, MemoryEdit, MemoryScope, TextEdit};
use uuid::Uuid;

use super::access::KnowledgeAccess;
use super::memories::Memories;
use super::refusal::Refusal;

/// A change of a memory, not yet checked; `None` keeps the value.
#[derive(Debug, Clone, Default)]
pub struct RequestedEdit {
    /// New title; unchanged if absent.
    pub title: Option<String>,
    /// New text of a note.
    pub content: Option<String>,
    /// All tags of the memory; unchanged if absent.
    pub tags: Option<Vec<String>>,
    /// All spaces that the party covers.
    pub spaces: Option<Vec<Uuid>>,
}

/// Attempts, if other changes of the memory intervene between read and write.
const ATTEMPTS: usize = 5;

impl Memories {
    /// Changes a memory of the account. A key for certain spaces changes title, text and tags only of memories that are in no other space.
    #[boxed]
    pub async fn edit(
        &self,
        access: &KnowledgeAccess,
        id: MemoryId,
        change: &RequestedEdit,
    ) -> Result<Memory, Refusal> {
        let title = change.title.as_deref().map(title).transpose()?;
        let tags = change.tags.as_deref().map(|tags| self.tags_of(tags)).transpose()?;
        self.check_content(change)?;
        for _ in 0..ATTEMPTS {
            let memory = self.owned(access, id).await?;
            let is_within = memory.spaces.iter().all(|space| access.covers(*space));
            let changes_memory = title.is_some() || change.content.is_some() || tags.is_some();
            if changes_memory && !is_within {
                return Err(Refusal::SpaceForbidden);
            }
            let spaces = match &change.spaces {
                Some(wanted) => Some(self.spaces_after(access, &memory, wanted).await?),
                None => None,
            };
            let draft = self.draft(&memory, title.as_deref(), change.content.as_deref()).await?;
            match self.write(access, &memory, draft, tags.clone(), spaces).await? {
                Edit::Done => return self.owned(access, id).await,
                Edit::Stale => {}
                Edit::QuotaExceeded => return Err(Refusal::QuotaExceeded),
                Edit::NotThere => return Err(Refusal::NotFound),
                Edit::Duplicate(other) => {
                    return Err(Refusal::invalid("content", format!("the memory {other} has this text already")));
                }
            }
        }
        Err(Refusal::Infra(actors::InfraError::Internal("a memory changes faster than it can be edited".into())))
    }

    /// A memory of the account that the party may see.
    async fn owned(&self, access: &KnowledgeAccess, id: MemoryId) -> Result<Memory, Refusal> {
        let scope = MemoryScope::Account(access.account.clone());
        let memory = self.ports.store.memory_by_id(id, &scope).await?.ok_or(Refusal::NotFound)?;
        let is_seen = access.within.is_none() || memory.spaces.iter().any(|space| access.covers(*space));
        if is_seen { Ok(memory) } else { Err(Refusal::NotFound) }
    }

    /// Normalised tags, at most `knowledge.tags_per_memory_max`.
    pub(super) fn tags_of(&self, texts: &[String]) -> Result<Vec<Tag>, Refusal> {
        let tag = |(nth, text): (usize, &String)| {
            text.parse().map_err(|error| Refusal::invalid(format!("tags[{nth}]"), format!("{error}")))
        };
        let tags = sorted_tags(texts.iter().enumerate().map(tag).collect::<Result<Vec<Tag>, Refusal>>()?);
        let most = self.limits.get().tags_max;
        if tags.len() > most {
            return Err(Refusal::invalid("tags", format!("must have at most {most}, and has {}", tags.len())));
        }
        Ok(tags)
    }

    fn check_content(&self, change: &RequestedEdit) -> Result<(), Refusal> {
        let most = self.limits.get().note_bytes_max;
        match &change.content {
            Some(content) if content.len() > most => {
                Err(Refusal::invalid("content", format!("must have at most {most} bytes, and has {}", content.len())))
            }
            _ => Ok(()),
        }
    }

    /// The spaces after the change: spaces that the party does not cover stay.
    async fn spaces_after(
        &self,
        access: &KnowledgeAccess,
        memory: &Memory,
        wanted: &[Uuid],
    ) -> Result<Vec<SpaceId>, Refusal> {
        let most = self.limits.get().spaces_max;
        if !(1..=most).contains(&wanted.len()) {
            return Err(Refusal::invalid("spaces", format!("must name 1 to {most}")));
        }
        let (existing, new): (Vec<Uuid>, Vec<Uuid>) =
            wanted.iter().partition(|space| memory.spaces.contains(&SpaceId::from(**space)));
        if existing.iter().any(|space| !access.covers(SpaceId::from(*space))) {
            return Err(Refusal::SpaceForbidden);
        }
        let mut spaces: Vec<SpaceId> = memory
            .spaces
            .iter()
            .copied()
            .filter(|space| !access.covers(*space) || existing.contains(&space.as_uuid()))
            .collect();
        if !new.is_empty() {
            spaces.extend(access.to_write(&new, &self.ports).await?);
        }
        Ok(spaces)
    }

    /// The new text with its chunks; `None` if neither title nor text changes.
    async fn draft(
        &self,
        memory: &Memory,
        title: Option<&str>,
        content: Option<&str>,
    ) -> Result<Option<MemoryDraft>, Refusal> {
        if content.is_some() && memory.url.is_some() {
            return Err(Refusal::invalid("content", "can be changed only for a memory without a page"));
        }
        let is_same = title.is_none_or(|title| title == memory.title);
        if is_same && content.is_none_or(|content| content == memory.content) {
            return Ok(None);
        }
        let text = KnownText {
            kind: memory.kind,
            title: Some(title.unwrap_or(&memory.title).to_owned()).filter(|title| !title.is_empty()),
            url: memory.url.clone(),
            content: content.unwrap_or(&memory.content).to_owned(),
        };
        let draft = self.pipeline.prepare_text(text).await;
        draft.map(Some).map_err(|fault| Refusal::invalid("content", fault.message))
    }

    async fn write(
        &self,
        access: &KnowledgeAccess,
        memory: &Memory,
        draft: Option<MemoryDraft>,
        tags: Option<Vec<Tag>>,
        spaces: Option<Vec<SpaceId>>,
    ) -> Result<Edit, Refusal> {
        let (store, now) = (self.ports.store.clone(), self.ports.clock.now());
        let (id, seen, account) = (memory.id, memory.changed, memory.account.clone());
        let quota = self.limits.get().quota;
        let within = access.within.clone();
        let has_new_text = draft.as_ref().is_some_and(|draft| draft.content != memory.content);
        let write = async move {
            let chunks = draft.as_ref().map(MemoryDraft::chunks).unwrap_or_default();
            let text = draft.as_ref().map(|draft| TextEdit {
                title: &draft.title,
                content: has_new_text.then_some((draft.content.as_str(), draft.dedupe)),
                chunks: &chunks,
                model: draft.model.as_ref(),
            });
            let (tags, spaces, key_spaces) = (tags.as_deref(), spaces.as_deref(), within.as_deref());
            let edit = MemoryEdit { id, account: &account, seen, text, tags, spaces, key_spaces, quota };
            store.memory_edit(&edit, now).await
        };
        Ok(actors::detached(write).await??)
    }
}

/// Normalises a title.
fn title(text: &str) -> Result<String, Refusal> {
    let rule = || Refusal::invalid("title", format!("must have 1 to {TITLE_CHARS_MAX} characters"));
    if text.trim().chars().count() > TITLE_CHARS_MAX {
        return Err(rule());
    }
    short_title(text).ok_or_else(rule)
}
