//! Keeping a memory: one transaction for its text, its passages, their words and vectors, and its links.

use domain::ids::SpaceId;
use domain::{Digest, Timestamp};
use sqlx_macros::FromRow;
use uuid::Uuid;

use super::piece::{PreparedChunk, delete_chunks, insert_chunks};
use super::{MemoryPut, Put, json, spaces_of};
use crate::error::StoreError;
use crate::operation::{During, Operation};
use crate::pool::{Tx, query};
use crate::row::{bytes, limit, storable};
use crate::{Store, in_transaction};

impl Store {
    /// Keeps a memory, unless the account keeps `memories_max` already. One of the same `dedupe` is the same memory: it keeps its
    /// id, gets new parts of the text, and is linked to the new spaces as well. A key for certain spaces gives it nothing new while it is in
    /// others too.
    pub async fn memory_put(&self, put: &MemoryPut<'_>, now: Timestamp) -> Result<Put, StoreError> {
        let (title, content) = (storable(put.title), storable(put.content));
        let url = put.url.map(storable);
        let pieces: Vec<PreparedChunk> =
            (0..).zip(put.chunks).map(|(ordinal, chunk)| PreparedChunk::of(&title, ordinal, chunk)).collect();
        let version = version(put);
        let count = limit(pieces.len());
        let words: i64 = pieces.iter().map(|piece| i64::from(piece.counted.length)).sum();
        let model = put.model.map(ToString::to_string);
        in_transaction!(
            &self.pool,
            |tx| {
                let next: Option<ShelfRow> =
                    query(NEXT).bind(put.account.as_str()).fetch_optional(&mut *tx).await?;
                let turn = match next {
                    Some(turn) => turn,
                    None => query(FIRST).bind(put.account.as_str()).fetch_one(&mut *tx).await?,
                };
                let known: Option<KnownRow> = query(KNOWN)
                    .bind(turn.number)
                    .bind(&put.dedupe.as_bytes()[..])
                    .fetch_optional(&mut *tx)
                    .await?;
                let before = known.as_ref().map(|known| spaces_of(&known.spaces)).transpose()?.unwrap_or_default();
                let may_change = covers_all(put.key_spaces, &before);
                let (linked, new) = linked(before, put.spaces);
                let spaces = json(&linked);
                let (outcome, memory, gone) = match known {
                    Some(known)
                        if !may_change || bytes("memories.version", &known.version)? == *version.as_bytes() =>
                    {
                        if !new.is_empty() {
                            query(LINK).bind(known.id).bind(&spaces).bind(turn.changes).execute(&mut *tx).await?;
                        }
                        (Put::Existing(known.id.into()), known.id, None)
                    }
                    Some(known) => {
                        delete_chunks(tx, known.id).await?;
                        query(CHANGE)
                            .bind(known.id)
                            .bind(put.kind.as_str())
                            .bind(&*title)
                            .bind(url.as_deref())
                            .bind(&*content)
                            .bind(&version.as_bytes()[..])
                            .bind(&spaces)
                            .bind(count)
                            .bind(words)
                            .bind(turn.changes)
                            .bind(now)
                            .execute(&mut *tx)
                            .await?;
                        (Put::Updated(known.id.into()), known.id, Some((0, known.chunks, known.words)))
                    }
                    None if turn.memories >= i64::from(put.memories_max) => return Ok(Put::QuotaExceeded),
                    None => {
                        let id = put.id.as_uuid();
                        query(ADD)
                            .bind(id)
                            .bind(turn.number)
                            .bind(put.kind.as_str())
                            .bind(&*title)
                            .bind(url.as_deref())
                            .bind(&*content)
                            .bind(&put.dedupe.as_bytes()[..])
                            .bind(&version.as_bytes()[..])
                            .bind(&spaces)
                            .bind(count)
                            .bind(words)
                            .bind(turn.changes)
                            .bind(now)
                            .execute(&mut *tx)
                            .await?;
                        (Put::Created(put.id), id, Some((1, 0, 0)))
                    }
                };
                if let Some((memories, chunks_gone, words_gone)) = gone {
                    insert_chunks(tx, &pieces, memory, turn.number, model.as_deref()).await?;
                    query(COUNT)
                        .bind(turn.number)
                        .bind(memories)
                        .bind(count - chunks_gone)
                        .bind(words - words_gone)
                        .execute(&mut *tx)
                        .await?;
                }
                for space in &new {
                    link(tx, *space, memory, turn.number).await?;
                }
                // New chunks are in every space of the memory, and known chunks in the new ones.
                if gone.is_some() || !new.is_empty() {
                    query(SPACE_CHUNKS).bind(memory).bind(turn.number).execute(&mut *tx).await?;
                }
                Ok(outcome)
            },
            commit if |outcome| *outcome != Put::QuotaExceeded
        )
        .during(Operation::KeepMemory)
        .await
    }
}

// Both write the shelf's row, which keeps the others waiting until this is committed.
const NEXT: &str = "UPDATE shelves SET changes = changes + 1 WHERE account_id = $1 RETURNING number, memories, changes";
const FIRST: &str = "INSERT INTO shelves (account_id, memories, chunks, words, changes) VALUES ($1, 0, 0, 0, 1)
    ON CONFLICT (account_id) DO UPDATE SET changes = shelves.changes + 1 RETURNING number, memories, changes";
const KNOWN: &str = "SELECT id, version, spaces, chunks, words FROM memories WHERE shelf = $1 AND dedupe = $2";
const ADD: &str = "INSERT INTO memories (id, shelf, type, title, url, content, dedupe, version, spaces, chunks, words,
        changed, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $13)";
const CHANGE: &str = "UPDATE memories SET type = $2, title = $3, url = $4, content = $5, version = $6, spaces = $7,
        chunks = $8, words = $9, changed = $10, updated_at = $11 WHERE id = $1";
const LINK: &str = "UPDATE memories SET spaces = $2, changed = $3 WHERE id = $1";
const COUNT: &str = "UPDATE shelves SET memories = memories + $2, chunks = chunks + $3, words = words + $4
    WHERE number = $1";

const SPACE_CHUNKS: &str = "INSERT INTO space_chunks (space_id, shelf, chunk_id)
    SELECT l.space_id, $2, c.id FROM memory_spaces l JOIN chunks c ON c.memory_id = l.memory_id WHERE l.memory_id = $1
    ON CONFLICT DO NOTHING";

/// Whether a memory in these spaces is in none that a key does not cover. One in no space is the account's, and no such key's.
fn covers_all(key_spaces: Option<&[SpaceId]>, spaces: &[SpaceId]) -> bool {
    key_spaces.is_none_or(|covered| !spaces.is_empty() && spaces.iter().all(|space| covered.contains(space)))
}

/// The spaces after the new ones are added, and those that are new.
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

/// A digest of the shown text and of its chunks, each part behind its length, so that no two different ones are alike.
fn version(put: &MemoryPut<'_>) -> Digest {
    let head = [put.kind.as_str(), put.title, put.url.unwrap_or_default(), put.content];
    let texts = head.into_iter().chain(put.chunks.iter().map(|chunk| chunk.content));
    let parts: Vec<([u8; 8], &[u8])> = texts.map(|text| ((text.len() as u64).to_be_bytes(), text.as_bytes())).collect();
    let parts: Vec<&[u8]> = parts.iter().flat_map(|(length, text)| [&length[..], text]).collect();
    Digest::of_parts(&parts)
}

/// Links a memory to a space that it was not in.
async fn link(tx: &mut Tx<'_>, space: SpaceId, memory: Uuid, shelf_number: i64) -> Result<(), sqlx::Error> {
    const LINK: &str = "INSERT INTO memory_spaces (space_id, memory_id) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    const COUNT_IN: &str = "INSERT INTO space_shelves (space_id, shelf, memories) VALUES ($1, $2, 1)
        ON CONFLICT (space_id, shelf) DO UPDATE SET memories = space_shelves.memories + 1";
    query(LINK).bind(space.as_uuid()).bind(memory).execute(&mut *tx).await?;
    query(COUNT_IN).bind(space.as_uuid()).bind(shelf_number).execute(tx).await.map(drop)
}

#[derive(FromRow)]
struct ShelfRow {
    number: i64,
    memories: i64,
    changes: i64,
}

#[derive(FromRow)]
struct KnownRow {
    id: Uuid,
    version: Vec<u8>,
    spaces: String,
    chunks: i64,
    words: i64,
}
