//! Deleting memories, and unlinking them from spaces.

use domain::ids::{MemoryId, SpaceId, UserAccountId};

use super::links::{COUNT_OUT, link, show_chunks, unlink};
use super::piece::delete_chunks;
use super::{json, spaces_of};
use crate::error::StoreError;
use crate::operation::{During, Operation};
use crate::pool::{Tx, query};
use crate::{Store, in_transaction};

/// Number of deletions that an account index stores for followers of its changes; a follower further behind starts again.
pub(crate) const DELETIONS_KEPT: i64 = 100_000;

/// Result of unlinking a memory from spaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unlink {
    /// It is still in other spaces.
    Unlinked,
    /// It was in no other space and was deleted.
    Deleted,
    /// The account has no such memory, or it is in none of the spaces.
    NotThere,
}

/// Result of removing a memory from a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// It was in no other space and is in the given one now.
    Home,
    /// It is still in other spaces.
    Elsewhere,
    /// It was not in the space.
    NotThere,
}

impl Store {
    /// Deletes a memory of an account, with its chunks, words and vectors; `false` if the account has no such memory.
    #[boxed]
    pub async fn memory_delete(&self, id: MemoryId, account: &UserAccountId) -> Result<bool, StoreError> {
        in_transaction!(
            self.memory_pool()?,
            |tx| {
                let Some((turn, there)) = lock_account_index(tx, id, account).await? else { return Ok(false) };
                let spaces = spaces_of(&there.spaces)?;
                delete_whole(tx, id, &turn, &there, &spaces).await?;
                Ok(true)
            },
            commit if |deleted| *deleted
        )
        .during(Operation::ForgetMemory)
        .await
    }

    /// Removes a memory of an account from `spaces`; deletes it if it is in no other space.
    #[boxed]
    pub async fn memory_unlink(
        &self,
        id: MemoryId,
        account: &UserAccountId,
        spaces: &[SpaceId],
    ) -> Result<Unlink, StoreError> {
        in_transaction!(
            self.memory_pool()?,
            |tx| {
                let Some((turn, there)) = lock_account_index(tx, id, account).await? else { return Ok(Unlink::NotThere) };
                let (left, remaining): (Vec<SpaceId>, Vec<SpaceId>) =
                    spaces_of(&there.spaces)?.into_iter().partition(|space| spaces.contains(space));
                if left.is_empty() {
                    return Ok(Unlink::NotThere);
                }
                if remaining.is_empty() {
                    delete_whole(tx, id, &turn, &there, &left).await?;
                    return Ok(Unlink::Deleted);
                }
                for space in left {
                    unlink(tx, space, id.as_uuid(), turn.number).await?;
                }
                write_spaces(tx, id, &remaining, &turn).await?;
                Ok(Unlink::Unlinked)
            },
            commit if |outcome| *outcome != Unlink::NotThere
        )
        .during(Operation::RemoveMemoryFromSpaces)
        .await
    }

    /// Removes a memory of an account from a space; if it is in no other, it moves to `home`.
    #[boxed]
    pub async fn memory_move(
        &self,
        id: MemoryId,
        account: &UserAccountId,
        space: SpaceId,
        home: SpaceId,
    ) -> Result<Moved, StoreError> {
        in_transaction!(
            self.memory_pool()?,
            |tx| {
                let Some((turn, there)) = lock_account_index(tx, id, account).await? else { return Ok(Moved::NotThere) };
                let mut spaces = spaces_of(&there.spaces)?;
                let count = spaces.len();
                spaces.retain(|known| *known != space);
                if spaces.len() == count {
                    return Ok(Moved::NotThere);
                }
                unlink(tx, space, id.as_uuid(), turn.number).await?;
                let is_homeless = spaces.is_empty();
                if is_homeless {
                    spaces.push(home);
                    link(tx, home, id.as_uuid(), turn.number).await?;
                    show_chunks(tx, id.as_uuid(), turn.number).await?;
                }
                write_spaces(tx, id, &spaces, &turn).await?;
                Ok(if is_homeless { Moved::Home } else { Moved::Elsewhere })
            },
            commit if |moved| *moved != Moved::NotThere
        )
        .during(Operation::MoveMemoryToDefaultSpace)
        .await
    }
}

async fn write_spaces(tx: &mut Tx<'_>, id: MemoryId, spaces: &[SpaceId], turn: &TurnRow) -> Result<(), sqlx::Error> {
    const SQL: &str = "UPDATE memories SET spaces = $2, changed = $3 WHERE id = $1";
    query(SQL).bind(id.as_uuid()).bind(json(spaces)).bind(turn.changes).execute(tx).await.map(drop)
}

/// Locks the account index of an account and reads a memory; `None` if there is no such memory.
pub(super) async fn lock_account_index(
    tx: &mut Tx<'_>,
    id: MemoryId,
    account: &UserAccountId,
) -> Result<Option<(TurnRow, ThereRow)>, sqlx::Error> {
    const NEXT: &str = "UPDATE account_indexes SET changes = changes + 1 WHERE account_id = $1
        RETURNING number, changes, bytes";
    const THERE: &str = "SELECT spaces, chunks, words, bytes, changed, type AS kind, url, version, title FROM memories
        WHERE id = $1 AND account_index = $2";
    let turn: Option<TurnRow> = query(NEXT).bind(account.as_str()).fetch_optional(&mut *tx).await?;
    let Some(turn) = turn else { return Ok(None) };
    let there: Option<ThereRow> = query(THERE).bind(id.as_uuid()).bind(turn.number).fetch_optional(tx).await?;
    Ok(there.map(|there| (turn, there)))
}

/// Deletes a memory that is in these spaces, and records the deletion for followers of the account index.
async fn delete_whole(
    tx: &mut Tx<'_>,
    id: MemoryId,
    turn: &TurnRow,
    there: &ThereRow,
    spaces: &[SpaceId],
) -> Result<(), sqlx::Error> {
    const DELETE: &str = "DELETE FROM memories WHERE id = $1 AND account_index = $2";
    const REMEMBER: &str = "INSERT INTO memories_deleted (account_index, changed, memory_id) VALUES ($1, $2, $3)";
    const FORGET: &str = "DELETE FROM memories_deleted WHERE account_index = $1 AND changed <= $2";
    const COUNT: &str =
        "UPDATE account_indexes SET memories = memories - 1, chunks = chunks - $2, words = words - $3, bytes = bytes - $4
        WHERE number = $1";
    let (id, number) = (id.as_uuid(), turn.number);
    delete_chunks(tx, id).await?;
    for space in spaces {
        query(COUNT_OUT).bind(space.as_uuid()).bind(number).execute(&mut *tx).await?;
    }
    query(DELETE).bind(id).bind(number).execute(&mut *tx).await?;
    query(REMEMBER).bind(number).bind(turn.changes).bind(id).execute(&mut *tx).await?;
    query(FORGET).bind(number).bind(turn.changes - DELETIONS_KEPT).execute(&mut *tx).await?;
    query(COUNT).bind(number).bind(there.chunks).bind(there.words).bind(there.bytes).execute(tx).await.map(drop)
}

crate::row! {
    /// The account index of an account, locked.
    pub(super) struct TurnRow {
        /// Number of the account index.
        pub(super) number: i64,
        /// Number of the change of this transaction.
        pub(super) changes: i64,
        /// Size of its memories.
        pub(super) bytes: i64,
    }
}

crate::row! {
    /// The state of a memory before the change.
    pub(super) struct ThereRow {
        /// Its spaces as a JSON array.
        pub(super) spaces: String,
        /// Number of its chunks.
        pub(super) chunks: i64,
        /// Sum of the lengths of its chunks.
        pub(super) words: i64,
        /// Its size.
        pub(super) bytes: i64,
        /// Number of the change that last changed it.
        pub(super) changed: i64,
        pub(super) kind: String,
        pub(super) url: Option<String>,
        pub(super) version: Vec<u8>,
        pub(super) title: String,
    }
}
