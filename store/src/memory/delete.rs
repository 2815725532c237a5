//! Forgetting a memory.

use domain::ids::{MemoryId, UserAccountId};
use sqlx::FromRow;

use super::put::chunks_delete;
use super::spaces_of;
use crate::error::{During, StoreError};
use crate::{Store, in_transaction};

/// Deletions that a shelf remembers for those who follow its changes; who is further behind begins anew.
pub(crate) const DELETIONS_KEPT: i64 = 100_000;

impl Store {
    /// Forgets a memory of an account with everything that it was found by; `false` when the account has no such memory.
    pub async fn memory_delete(&self, id: MemoryId, account: &UserAccountId) -> Result<bool, StoreError> {
        const NEXT: &str = "UPDATE shelves SET changes = changes + 1 WHERE account_id = $1 RETURNING number, changes";
        const THERE: &str = "SELECT spaces, chunks, words FROM memories WHERE id = $1 AND shelf = $2";
        const UNLINK: &str = "UPDATE space_shelves SET memories = memories - 1 WHERE space_id = $1 AND shelf = $2";
        const DELETE: &str = "DELETE FROM memories WHERE id = $1 AND shelf = $2";
        const REMEMBER: &str = "INSERT INTO memories_deleted (shelf, changed, memory_id) VALUES ($1, $2, $3)";
        const FORGET: &str = "DELETE FROM memories_deleted WHERE shelf = $1 AND changed <= $2";
        const COUNT: &str = "UPDATE shelves SET memories = memories - 1, chunks = chunks - $2, words = words - $3
            WHERE number = $1";
        let postgres = self.pool.is_postgres();
        in_transaction!(
            &self.pool,
            |tx| {
                let next: Option<(i64, i64)> =
                    sqlx::query_as(NEXT).bind(account.as_str()).fetch_optional(&mut *tx).await?;
                let Some((number, change)) = next else { return Ok(false) };
                let there: Option<ThereRow> =
                    sqlx::query_as(THERE).bind(id.as_uuid()).bind(number).fetch_optional(&mut *tx).await?;
                let Some(there) = there else { return Ok(false) };
                chunks_delete!(tx, id.as_uuid(), postgres);
                for space in spaces_of(&there.spaces)? {
                    sqlx::query(UNLINK).bind(space.as_uuid()).bind(number).execute(&mut *tx).await?;
                }
                sqlx::query(DELETE).bind(id.as_uuid()).bind(number).execute(&mut *tx).await?;
                sqlx::query(REMEMBER).bind(number).bind(change).bind(id.as_uuid()).execute(&mut *tx).await?;
                sqlx::query(FORGET).bind(number).bind(change - DELETIONS_KEPT).execute(&mut *tx).await?;
                sqlx::query(COUNT).bind(number).bind(there.chunks).bind(there.words).execute(&mut *tx).await?;
                Ok(true)
            },
            commit if |deleted| *deleted
        )
        .during("forget a memory")
    }
}

#[derive(FromRow)]
struct ThereRow {
    spaces: String,
    chunks: i64,
    words: i64,
}
