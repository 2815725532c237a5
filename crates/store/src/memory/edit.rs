//! Changes of a memory by its owner: title, text, tags, spaces.

use domain::ids::{MemoryId, SpaceId, UserAccountId};
use domain::language::{Language, LanguageSet};
use domain::memory::{ModelId, Tag};
use domain::{Digest, Timestamp};

use super::delete::lock_account_index;
use super::known::other_alike;
use super::links::{link, show_chunks, unlink};
use super::piece::{PreparedChunk, delete_chunks, insert_chunks};
use super::put::{insert_tags, version_of};
use super::{ChunkPut, MemoryQuota, json, size_of, spaces_of};
use crate::error::StoreError;
use crate::operation::{During, Operation};
use crate::pool::{query, scalar};
use crate::row::{limit, storable};
use crate::{Store, in_transaction};

/// A change of a memory; `None` keeps the value.
#[derive(Debug, Clone)]
pub struct MemoryEdit<'a> {
    /// Id of the memory to change.
    pub id: MemoryId,
    /// Owner of the memory.
    pub account: &'a UserAccountId,
    /// [`super::Memory::changed`] of the memory that was read: after another change nothing is written.
    pub seen: i64,
    /// New title, or new title and text.
    pub text: Option<TextEdit<'a>>,
    /// All tags, sorted.
    pub tags: Option<&'a [Tag]>,
    /// All spaces, at least one.
    pub spaces: Option<&'a [SpaceId]>,
    /// The limits of the account.
    pub quota: MemoryQuota,
    /// The spaces that the writer's key covers; `None` for all spaces.
    pub key_spaces: Option<&'a [SpaceId]>,
}

/// The new text of a memory, with its chunks.
#[derive(Debug, Clone)]
pub struct TextEdit<'a> {
    /// New title of the memory.
    pub title: &'a str,
    /// The new text of a note, and its [`super::MemoryPut::dedupe`]; `None` keeps the text.
    pub content: Option<(&'a str, Digest)>,
    /// All chunks of the new text.
    pub chunks: &'a [ChunkPut<'a>],
    /// The model of the vectors.
    pub model: Option<&'a ModelId>,
}

/// The outcome of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit {
    /// The memory is changed.
    Done,
    /// The memory was changed after it was read: read it again.
    Stale,
    /// The account has reached its limit.
    QuotaExceeded,
    /// Another memory of the account, which the writer's key can read, has this text.
    Duplicate(MemoryId),
    /// The account has no such memory.
    NotThere,
}

impl Store {
    /// Changes a memory of an account. A change of only the title keeps the digest of the source, so that adding the same page again keeps
    /// it.
    #[boxed]
    pub async fn memory_edit(&self, edit: &MemoryEdit<'_>, now: Timestamp) -> Result<Edit, StoreError> {
        const CHANGE: &str =
            "UPDATE memories SET title = $2, content = COALESCE($3, content), dedupe = COALESCE($4, dedupe),
            version = $5, spaces = $6, tags = COALESCE($7, tags), chunks = $8, words = $9, changed = $10,
            updated_at = COALESCE($11, updated_at), language = COALESCE($12, language), bytes = $13,
             writer_spaces = CASE WHEN $4 IS NULL THEN writer_spaces ELSE $14 END WHERE id = $1";
        const COUNT: &str =
            "UPDATE account_indexes SET chunks = chunks + $2, words = words + $3, languages = languages | $4,
            bytes = bytes + $5 WHERE number = $1";
        const UNTAG: &str = "DELETE FROM memory_tags WHERE memory_id = $1";
        let title = edit.text.as_ref().map(|text| storable(text.title));
        let content =
            edit.text.as_ref().and_then(|text| text.content).map(|(content, dedupe)| (storable(content), dedupe));
        let pieces: Option<(Language, Vec<PreparedChunk>)> =
            edit.text.as_ref().map(|text| PreparedChunk::all(title.as_deref().unwrap_or_default(), text.chunks));
        let model = edit.text.as_ref().and_then(|text| text.model).map(ToString::to_string);
        let is_changed = edit.text.is_some() || edit.tags.is_some();
        let id = edit.id.as_uuid();
        let plan = self.plan_for(edit).await?;
        in_transaction!(
            self.memory_pool()?,
            |tx| {
                let Some((turn, there)) = lock_account_index(tx, edit.id, edit.account).await? else {
                    return Ok(Edit::NotThere);
                };
                if there.changed != edit.seen {
                    return Ok(Edit::Stale);
                }
                if let Some((_, dedupe)) = &content {
                    let other = other_alike(tx, turn.number, *dedupe, id, edit.key_spaces).await?;
                    if let Some(other) = other {
                        return Ok(Edit::Duplicate(other));
                    }
                }
                let url = there.url.as_deref();
                let size = match (&title, &content) {
                    (Some(title), Some((content, _))) => size_of(title, url, content),
                    (Some(title), None) => (there.bytes + limit(title.len()) - limit(there.title.len())).max(0),
                    (None, _) => there.bytes,
                };
                let sum = turn.bytes.saturating_add(size - there.bytes);
                if let Some(plan) = plan.as_deref().filter(|_| size > there.bytes)
                    && !edit.quota.permits(plan, sum)?
                {
                    return Ok(Edit::QuotaExceeded);
                }
                let old_spaces = spaces_of(&there.spaces)?;
                let spaces = edit.spaces.unwrap_or(&old_spaces);
                for space in old_spaces.iter().filter(|space| !spaces.contains(space)) {
                    unlink(tx, *space, id, turn.number).await?;
                }
                for space in spaces.iter().filter(|space| !old_spaces.contains(space)) {
                    link(tx, *space, id, turn.number).await?;
                }
                let (mut chunks, mut words) = (there.chunks, there.words);
                if let Some((language, pieces)) = &pieces {
                    delete_chunks(tx, id).await?;
                    insert_chunks(tx, pieces, id, turn.number, model.as_deref()).await?;
                    chunks = limit(pieces.len());
                    words = pieces.iter().map(|piece| i64::from(piece.counted.length)).sum();
                    let count = query(COUNT).bind(turn.number).bind(chunks - there.chunks).bind(words - there.words);
                    let count = count.bind(LanguageSet::with(*language).bits()).bind(size - there.bytes);
                    count.execute(&mut *tx).await?;
                }
                show_chunks(tx, id, turn.number).await?;
                if let Some(tags) = edit.tags {
                    query(UNTAG).bind(id).execute(&mut *tx).await?;
                    insert_tags(tx, id, turn.number, tags).await?;
                }
                let version = match (&edit.text, &content) {
                    (Some(text), Some((content, _))) => {
                        let url = there.url.as_deref().unwrap_or_default();
                        version_of([&there.kind, text.title, url, content], text.chunks).as_bytes().to_vec()
                    }
                    _ => there.version,
                };
                query(CHANGE)
                    .bind(id)
                    .bind(title.as_deref().unwrap_or(&there.title))
                    .bind(content.as_ref().map(|(content, _)| &**content))
                    .bind(content.as_ref().map(|(_, dedupe)| &dedupe.as_bytes()[..]))
                    .bind(&version[..])
                    .bind(json(spaces))
                    .bind(edit.tags.map(json))
                    .bind(chunks)
                    .bind(words)
                    .bind(turn.changes)
                    .bind(is_changed.then_some(now))
                    .bind(pieces.as_ref().map(|(language, _)| language.to_string()))
                    .bind(size)
                    .bind(edit.key_spaces.map(json))
                    .execute(&mut *tx)
                    .await?;
                Ok(Edit::Done)
            },
            commit if |outcome| *outcome == Edit::Done
        )
        .during(Operation::EditMemory)
        .await
    }

    /// The plan of a memory's account, if the change is one of its text, which the plan limits.
    async fn plan_for(&self, edit: &MemoryEdit<'_>) -> Result<Option<String>, StoreError> {
        const PLAN: &str = "SELECT plan FROM accounts WHERE user_account_id = $1";
        if edit.text.is_none() {
            return Ok(None);
        }
        let plan = scalar(PLAN).bind(edit.account.as_str());
        plan.fetch_optional(&self.pool).during(Operation::EditMemory).await
    }
}
