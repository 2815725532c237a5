//! Duplicate detection, from the writer's view (`docs/decisions/0021-memories.md`).
//!
//! Writes with a key limited to spaces reveal nothing about other memories, so several memories of an account may have the same `dedupe`.

use domain::Digest;
use domain::ids::{MemoryId, SpaceId};
use uuid::Uuid;

use super::{MemoryPut, json, spaces_of};
use crate::pool::{Tx, query};

/// A stored memory with which an item is compared.
pub(super) struct KnownMemory {
    pub(super) id: Uuid,
    pub(super) version: Vec<u8>,
    pub(super) spaces: Vec<SpaceId>,
    pub(super) chunks: i64,
    pub(super) words: i64,
    pub(super) bytes: i64,
    /// The spaces of the key that wrote it; `None` for a writer without such limits.
    pub(super) writer_spaces: Option<Vec<SpaceId>>,
}

impl KnownMemory {
    /// Whether the item is this memory for its writer. `wanted` are the spaces of the item.
    ///
    /// - The writer's key covers at least one space of the memory, so the key can read it already.
    /// - A text becomes visible only to readers that its writer named. A memory that a narrower key wrote, possibly with the URL of a page
    ///   that it expects, is a different memory unless all its spaces are wanted.
    fn is_known(&self, key_spaces: Option<&[SpaceId]>, wanted: &[SpaceId]) -> bool {
        is_covered(key_spaces, &self.spaces) && (self.is_as_wide(key_spaces) || is_within(&self.spaces, wanted))
    }

    /// Whether its writer had at least the access of a key for these spaces.
    fn is_as_wide(&self, key_spaces: Option<&[SpaceId]>) -> bool {
        match (&self.writer_spaces, key_spaces) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(writer), Some(key_spaces)) => is_within(key_spaces, writer),
        }
    }

    /// The column of its writer after a write by `put`: the wider access of both.
    pub(super) fn writer_after(&self, put: &MemoryPut<'_>) -> Option<String> {
        let is_as_wide = self.is_as_wide(put.key_spaces);
        if is_as_wide { self.writer_spaces.as_deref() } else { put.key_spaces }.map(json)
    }
}

/// The memory that `put` refers to, by its `dedupe`, or by its id if `by_id`. A memory in a wanted space comes first, then the oldest.
pub(super) async fn known_memory(
    tx: &mut Tx<'_>,
    account_index_number: i64,
    put: &MemoryPut<'_>,
    wanted: &[SpaceId],
    by_id: bool,
) -> Result<Option<KnownMemory>, sqlx::Error> {
    const ALIKE: &str = "SELECT id, version, spaces, chunks, words, bytes, writer_spaces FROM memories
        WHERE account_index = $1 AND dedupe = $2 ORDER BY id";
    const NAMED: &str = "SELECT id, version, spaces, chunks, words, bytes, writer_spaces FROM memories
        WHERE account_index = $1 AND id = $2";
    let dedupe = &put.dedupe.as_bytes()[..];
    let alike: Vec<KnownRow> = query(ALIKE).bind(account_index_number).bind(dedupe).fetch_all(&mut *tx).await?;
    let alike = first_known(alike, put, wanted)?;
    if alike.is_some() || !by_id {
        return Ok(alike);
    }
    let named: Option<KnownRow> =
        query(NAMED).bind(account_index_number).bind(put.id.as_uuid()).fetch_optional(tx).await?;
    first_known(named, put, wanted)
}

fn first_known(
    rows: impl IntoIterator<Item = KnownRow>,
    put: &MemoryPut<'_>,
    wanted: &[SpaceId],
) -> Result<Option<KnownMemory>, sqlx::Error> {
    let memories = rows.into_iter().map(KnownMemory::try_from).collect::<Result<Vec<_>, _>>()?;
    let matches = memories.into_iter().filter(|memory| memory.is_known(put.key_spaces, wanted));
    Ok(matches.min_by_key(|memory| !memory.spaces.iter().any(|space| wanted.contains(space))))
}

/// Another memory of the account index with this `dedupe` that a key for `key_spaces` can read.
pub(super) async fn other_alike(
    tx: &mut Tx<'_>,
    account_index_number: i64,
    dedupe: Digest,
    id: Uuid,
    key_spaces: Option<&[SpaceId]>,
) -> Result<Option<MemoryId>, sqlx::Error> {
    const SQL: &str =
        "SELECT id, spaces FROM memories WHERE account_index = $1 AND dedupe = $2 AND id <> $3 ORDER BY id";
    let others = query(SQL).bind(account_index_number).bind(&dedupe.as_bytes()[..]).bind(id);
    let others: Vec<(Uuid, String)> = others.fetch_all(tx).await?;
    for (other, spaces) in others {
        if is_covered(key_spaces, &spaces_of(&spaces)?) {
            return Ok(Some(other.into()));
        }
    }
    Ok(None)
}

/// Whether a key covers all spaces of a memory. A memory without spaces is covered only without key limits.
pub(super) fn covers_all(key_spaces: Option<&[SpaceId]>, spaces: &[SpaceId]) -> bool {
    key_spaces.is_none_or(|covered| !spaces.is_empty() && is_within(spaces, covered))
}

/// Whether a key covers at least one space of a memory, and so can read it.
fn is_covered(key_spaces: Option<&[SpaceId]>, spaces: &[SpaceId]) -> bool {
    key_spaces.is_none_or(|covered| spaces.iter().any(|space| covered.contains(space)))
}

fn is_within(spaces: &[SpaceId], all: &[SpaceId]) -> bool {
    spaces.iter().all(|space| all.contains(space))
}

crate::row! {
    struct KnownRow {
        id: Uuid,
        version: Vec<u8>,
        spaces: String,
        chunks: i64,
        words: i64,
        bytes: i64,
        writer_spaces: Option<String>,
    }
}

impl TryFrom<KnownRow> for KnownMemory {
    type Error = sqlx::Error;

    fn try_from(row: KnownRow) -> Result<Self, sqlx::Error> {
        let KnownRow { id, version, spaces, chunks, words, bytes, writer_spaces } = row;
        let writer_spaces = writer_spaces.as_deref().map(spaces_of).transpose()?;
        Ok(Self { id, version, spaces: spaces_of(&spaces)?, chunks, words, bytes, writer_spaces })
    }
}
