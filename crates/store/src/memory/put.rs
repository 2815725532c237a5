//! Stores a memory: one transaction for its text, its chunks, their words and vectors, and its links.

use domain::ids::{MemoryId, SpaceId};
use domain::language::{Language, LanguageSet};
use domain::memory::Tag;
use domain::{Digest, Timestamp};
use uuid::Uuid;

use super::known::{covers_all, known_memory};
use super::links::{link, show_chunks};
use super::piece::{PreparedChunk, delete_chunks, insert_chunks};
use super::{ChunkPut, MemoryPut, Put, json, size_of};
use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::{QueryBuilder, Tx, query, scalar};
use crate::row::{bytes, chunks, limit, storable};
use crate::{Store, in_transaction};

/// The members of an imported memory that the server sets for an added one.
#[derive(Debug, Clone, Copy)]
pub struct Restored<'a> {
    /// Time of the first addition.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Tags of the memory, sorted.
    pub tags: &'a [Tag],
    /// Id to use if a memory of this server has the exported id. Always used for a key limited to spaces, to which the exported id would
    /// reveal that such a memory exists.
    pub other_id: MemoryId,
}

impl Store {
    /// Stores a memory, unless the account exceeds its `quota`. If a memory with the same `dedupe` is known to the writer, it keeps its id,
    /// its content is updated, and it is linked to the new spaces as well. A key limited to spaces does not change the content while the
    /// memory is also in other spaces.
    #[boxed]
    pub async fn memory_put(&self, put: &MemoryPut<'_>, now: Timestamp) -> Result<Put, StoreError> {
        self.keep(put, None, now).await
    }

    /// Stores a memory of an export with its id, times and tags. If its id or `dedupe` is known, the known memory is only linked to the new
    /// spaces.
    #[boxed]
    pub async fn memory_import(&self, put: &MemoryPut<'_>, restored: &Restored<'_>) -> Result<Put, StoreError> {
        self.keep(put, Some(restored), restored.updated_at).await
    }

    async fn keep(
        &self,
        put: &MemoryPut<'_>,
        restored: Option<&Restored<'_>>,
        now: Timestamp,
    ) -> Result<Put, StoreError> {
        let (title, content, url) = (storable(put.title), storable(put.content), put.url.map(storable));
        let size = size_of(&title, url.as_deref(), &content);
        let (language, pieces) = PreparedChunk::all(&title, put.chunks);
        let version = version(put);
        let count = limit(pieces.len());
        let words: i64 = pieces.iter().map(|piece| i64::from(piece.counted.length)).sum();
        let row = MemoryRow {
            put,
            title: &title,
            url: url.as_deref(),
            content: &content,
            version,
            count,
            words,
            language,
            size,
            now,
        };
        // A space may be deleted between the read and the transaction.
        for _ in 1..ATTEMPTS {
            match self.keep_row(&row, &pieces, restored).await {
                Err(error) if error.is_foreign_key_violation() => {}
                outcome => return outcome,
            }
        }
        self.keep_row(&row, &pieces, restored).await
    }

    async fn keep_row(
        &self,
        row: &MemoryRow<'_>,
        pieces: &[PreparedChunk<'_>],
        restored: Option<&Restored<'_>>,
    ) -> Result<Put, StoreError> {
        let MemoryRow { put, count, words, language, size, now, .. } = *row;
        let model = put.model.map(ToString::to_string);
        let tags = restored.map_or(&[][..], |restored| restored.tags);
        let Writer { plan, wanted } = self.writer(put).await?;
        let permits = |turn: &AccountIndexRow, more: i64| put.quota.permits(&plan, turn.bytes.saturating_add(more));
        in_transaction!(
            self.memory_pool()?,
            |tx| {
                let turn = next_turn(tx, put.account.as_str()).await?;
                let existing = known_memory(tx, turn.number, put, &wanted, restored.is_some()).await?;
                let old_spaces = existing.as_ref().map(|existing| existing.spaces.clone()).unwrap_or_default();
                let may_change = restored.is_none() && covers_all(put.key_spaces, &old_spaces);
                let (linked, new) = linked(old_spaces, &wanted);
                let spaces = json(&linked);
                let writer = existing.as_ref().map_or_else(|| put.key_spaces.map(json), |existing| existing.writer_after(put));
                let (outcome, memory, gone) = match existing {
                    Some(existing)
                        if !may_change || bytes("memories.version", &existing.version)? == *row.version.as_bytes() =>
                    {
                        if !new.is_empty() {
                            let relinked = query(LINK).bind(existing.id).bind(&spaces).bind(turn.changes).bind(&writer);
                            relinked.execute(&mut *tx).await?;
                        }
                        (Put::Existing(existing.id.into()), existing.id, None)
                    }
                    Some(existing) if size > existing.bytes && !permits(&turn, size - existing.bytes)? => {
                        return Ok(Put::QuotaExceeded);
                    }
                    Some(existing) => {
                        delete_chunks(tx, existing.id).await?;
                        row.change(tx, existing.id, &spaces, writer.as_deref(), turn.changes).await?;
                        let gone = Gone { memories: 0, chunks: existing.chunks, words: existing.words, bytes: existing.bytes };
                        (Put::Updated(existing.id.into()), existing.id, Some(gone))
                    }
                    None if turn.memories >= i64::from(put.quota.memories_max) || !permits(&turn, size)? => {
                        return Ok(Put::QuotaExceeded);
                    }
                    None => {
                        let id = free_id(tx, put, restored).await?;
                        let created = restored.map_or(now, |restored| restored.created_at);
                        row.add(tx, id, (&spaces, writer.as_deref(), created, tags), &turn).await?;
                        insert_tags(tx, id, turn.number, tags).await?;
                        (Put::Created(id.into()), id, Some(Gone { memories: 1, ..Gone::default() }))
                    }
                };
                if let Some(gone) = &gone {
                    insert_chunks(tx, pieces, memory, turn.number, model.as_deref()).await?;
                    query(COUNT)
                        .bind(turn.number)
                        .bind(gone.memories)
                        .bind(count - gone.chunks)
                        .bind(words - gone.words)
                        .bind(LanguageSet::with(language).bits())
                        .bind(size - gone.bytes)
                        .execute(&mut *tx)
                        .await?;
                }
                for space in &new {
                    link(tx, *space, memory, turn.number).await?;
                }
                // New chunks are added to every space of the memory, and existing chunks to the new spaces.
                if gone.is_some() || !new.is_empty() {
                    show_chunks(tx, memory, turn.number).await?;
                }
                Ok(outcome)
            },
            commit if |outcome| *outcome != Put::QuotaExceeded
        )
        .during(Operation::KeepMemory)
        .await
    }

    /// The plan of a memory's account, and the existing spaces of `put`. If all were deleted since the request: the account's default space,
    /// if the sender's key covers it.
    async fn writer(&self, put: &MemoryPut<'_>) -> Result<Writer, StoreError> {
        const SQLITE: &str = "SELECT a.plan, s.id FROM accounts a
            LEFT JOIN spaces s ON s.id IN (SELECT unhex(replace(value, '-', '')) FROM json_each($2))
            WHERE a.user_account_id = $1";
        const POSTGRES: &str = "SELECT a.plan, s.id FROM accounts a
            LEFT JOIN spaces s ON s.id IN (SELECT CAST(value AS UUID) FROM json_array_elements_text(CAST($2 AS json)))
            WHERE a.user_account_id = $1";
        const DEFAULT: &str = "SELECT id FROM spaces WHERE account_id = $1 AND is_default";
        const DO: Operation = Operation::KeepMemory;
        let sql = if self.pool.is_postgres() { POSTGRES } else { SQLITE };
        let rows = query(sql).bind(put.account.as_str()).bind(json(put.spaces)).fetch_all(&self.pool);
        let rows: Vec<(String, Option<Uuid>)> = rows.during(DO).await?;
        let Some((plan, _)) = rows.first().cloned() else {
            return Err(Corrupt::new("accounts.plan", "the account of a memory does not exist").into());
        };
        let living = |space: &SpaceId| rows.iter().any(|(_, found)| *found == Some(space.as_uuid()));
        let wanted: Vec<SpaceId> = put.spaces.iter().copied().filter(living).collect();
        if !wanted.is_empty() || put.spaces.is_empty() {
            return Ok(Writer { plan, wanted });
        }
        let default: Option<Uuid> =
            scalar(DEFAULT).bind(put.account.as_str()).fetch_optional(&self.pool).during(DO).await?;
        let default = default.map(SpaceId::from);
        let is_covered = |space: &SpaceId| put.key_spaces.is_none_or(|covered| covered.contains(space));
        Ok(Writer { plan, wanted: default.into_iter().filter(is_covered).collect() })
    }
}

/// Number of attempts to link a memory to spaces that are being deleted.
const ATTEMPTS: u32 = 3;

/// What the main database knows of the writer of a memory.
struct Writer {
    /// Plan of the account.
    plan: String,
    /// The spaces to link the memory to.
    wanted: Vec<SpaceId>,
}

// Both write the row of the account index, so concurrent changes wait until this one is committed.
const NEXT: &str = "UPDATE account_indexes SET changes = changes + 1 WHERE account_id = $1
    RETURNING number, memories, changes, bytes";
const FIRST: &str = "INSERT INTO account_indexes (account_id, memories, chunks, words, changes) VALUES ($1, 0, 0, 0, 1)
    ON CONFLICT (account_id) DO UPDATE SET changes = account_indexes.changes + 1
    RETURNING number, memories, changes, bytes";
const ADD: &str =
    "INSERT INTO memories (id, account_index, type, title, url, content, dedupe, version, spaces, chunks, words,
        changed, created_at, updated_at, tags, language, bytes, writer_spaces)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)";
const CHANGE: &str = "UPDATE memories SET type = $2, title = $3, url = $4, content = $5, version = $6, spaces = $7,
        chunks = $8, words = $9, changed = $10, updated_at = $11, language = $12, bytes = $13, writer_spaces = $14 WHERE id = $1";
const LINK: &str = "UPDATE memories SET spaces = $2, changed = $3, writer_spaces = $4 WHERE id = $1";
const COUNT: &str = "UPDATE account_indexes SET memories = memories + $2, chunks = chunks + $3, words = words + $4,
        languages = languages | $5, bytes = bytes + $6 WHERE number = $1";

/// Counts of the memory that a put replaces.
#[derive(Default)]
struct Gone {
    /// Added memories: 1 for a new one.
    memories: i64,
    chunks: i64,
    words: i64,
    bytes: i64,
}

/// The columns of a memory to write.
struct MemoryRow<'a> {
    put: &'a MemoryPut<'a>,
    title: &'a str,
    url: Option<&'a str>,
    content: &'a str,
    version: Digest,
    count: i64,
    words: i64,
    language: Language,
    size: i64,
    now: Timestamp,
}

impl MemoryRow<'_> {
    /// Replaces a memory, except for its times of creation and its tags.
    async fn change(
        &self,
        tx: &mut Tx<'_>,
        id: Uuid,
        spaces: &str,
        writer: Option<&str>,
        changes: i64,
    ) -> Result<(), sqlx::Error> {
        let row =
            query(CHANGE).bind(id).bind(self.put.kind.as_str()).bind(self.title).bind(self.url).bind(self.content);
        let row = row.bind(&self.version.as_bytes()[..]).bind(spaces).bind(self.count).bind(self.words).bind(changes);
        let row = row.bind(self.now).bind(self.language.to_string()).bind(self.size).bind(writer);
        row.execute(tx).await.map(drop)
    }

    /// Inserts a memory with its spaces, its writer's spaces, its time of creation and its tags.
    async fn add(
        &self,
        tx: &mut Tx<'_>,
        id: Uuid,
        (spaces, writer, created, tags): (&str, Option<&str>, Timestamp, &[Tag]),
        turn: &AccountIndexRow,
    ) -> Result<(), sqlx::Error> {
        let row = query(ADD).bind(id).bind(turn.number).bind(self.put.kind.as_str()).bind(self.title).bind(self.url);
        let row = row.bind(self.content).bind(&self.put.dedupe.as_bytes()[..]).bind(&self.version.as_bytes()[..]);
        let row = row.bind(spaces).bind(self.count).bind(self.words).bind(turn.changes).bind(created).bind(self.now);
        let row = row.bind(json(tags)).bind(self.language.to_string()).bind(self.size).bind(writer);
        row.execute(tx).await.map(drop)
    }
}

/// Increments the change number of the account's account index, which is created if it is absent.
async fn next_turn(tx: &mut Tx<'_>, account: &str) -> Result<AccountIndexRow, sqlx::Error> {
    match query(NEXT).bind(account).fetch_optional(&mut *tx).await? {
        Some(turn) => Ok(turn),
        None => query(FIRST).bind(account).fetch_one(tx).await,
    }
}

/// All spaces after the new ones are added, and the new ones.
fn linked(before: Vec<SpaceId>, wanted: &[SpaceId]) -> (Vec<SpaceId>, Vec<SpaceId>) {
    let mut all = before;
    let mut new = Vec::new();
    for space in wanted {
        if !all.contains(space) {
            all.push(*space);
            new.push(*space);
        }
    }
    (all, new)
}

/// The id of a new memory: an imported one keeps its id unless another memory of this server has it. A key limited to spaces always gets a
/// new id: otherwise the id would reveal a memory outside its spaces.
async fn free_id(tx: &mut Tx<'_>, put: &MemoryPut<'_>, restored: Option<&Restored<'_>>) -> Result<Uuid, sqlx::Error> {
    const TAKEN: &str = "SELECT id FROM memories WHERE id = $1";
    let Some(restored) = restored else { return Ok(put.id.as_uuid()) };
    if put.key_spaces.is_some() {
        return Ok(restored.other_id.as_uuid());
    }
    let taken: Option<Uuid> = scalar(TAKEN).bind(put.id.as_uuid()).fetch_optional(tx).await?;
    Ok(if taken.is_some() { restored.other_id } else { put.id }.as_uuid())
}

/// Inserts the tags of a memory without tags.
pub(super) async fn insert_tags(
    tx: &mut Tx<'_>,
    memory: Uuid,
    account_index_number: i64,
    tags: &[Tag],
) -> Result<(), sqlx::Error> {
    for tags in chunks(tags) {
        let mut sql = QueryBuilder::new("INSERT INTO memory_tags (memory_id, tag, account_index) ");
        sql.push_values(tags, |mut row, tag| {
            row.push_bind(memory).push_bind(tag.as_str()).push_bind(account_index_number);
        });
        sql.build().execute(&mut *tx).await?;
    }
    Ok(())
}

fn version(put: &MemoryPut<'_>) -> Digest {
    version_of([put.kind.as_str(), put.title, put.url.unwrap_or_default(), put.content], put.chunks)
}

/// A digest of the shown text and of its chunks; each part follows its length, so that different inputs have different encodings. `head` is
/// the type, the title, the URL and the text.
pub(super) fn version_of(head: [&str; 4], chunks: &[ChunkPut<'_>]) -> Digest {
    let texts = head.into_iter().chain(chunks.iter().map(|chunk| chunk.content));
    let parts: Vec<([u8; 8], &[u8])> = texts.map(|text| ((text.len() as u64).to_be_bytes(), text.as_bytes())).collect();
    let parts: Vec<&[u8]> = parts.iter().flat_map(|(length, text)| [&length[..], text]).collect();
    Digest::of_parts(&parts)
}

crate::row! {
    struct AccountIndexRow {
        number: i64,
        memories: i64,
        changes: i64,
        bytes: i64,
    }
}
