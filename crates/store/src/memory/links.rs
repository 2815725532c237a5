//! The spaces of a memory as rows: links, counts per space, and chunks per space.

use domain::ids::SpaceId;
use uuid::Uuid;

use crate::pool::{Tx, query};

/// Decrements the count of an account index's memories in a space.
pub(super) const COUNT_OUT: &str =
    "UPDATE space_indexes SET memories = memories - 1 WHERE space_id = $1 AND account_index = $2";

/// Links a memory to another space.
pub(super) async fn link(
    tx: &mut Tx<'_>,
    space: SpaceId,
    memory: Uuid,
    account_index_number: i64,
) -> Result<(), sqlx::Error> {
    const LINK: &str = "INSERT INTO memory_spaces (space_id, memory_id) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    const COUNT_IN: &str = "INSERT INTO space_indexes (space_id, account_index, memories) VALUES ($1, $2, 1)
        ON CONFLICT (space_id, account_index) DO UPDATE SET memories = space_indexes.memories + 1";
    query(LINK).bind(space.as_uuid()).bind(memory).execute(&mut *tx).await?;
    query(COUNT_IN).bind(space.as_uuid()).bind(account_index_number).execute(tx).await.map(drop)
}

/// Removes a memory and its chunks from a space.
pub(super) async fn unlink(
    tx: &mut Tx<'_>,
    space: SpaceId,
    memory: Uuid,
    account_index_number: i64,
) -> Result<(), sqlx::Error> {
    const HIDE: &str = "DELETE FROM space_chunks WHERE space_id = $1 AND account_index = $2
        AND chunk_id IN (SELECT id FROM chunks WHERE memory_id = $3)";
    const UNLINK: &str = "DELETE FROM memory_spaces WHERE space_id = $1 AND memory_id = $2";
    let space = space.as_uuid();
    query(HIDE).bind(space).bind(account_index_number).bind(memory).execute(&mut *tx).await?;
    query(UNLINK).bind(space).bind(memory).execute(&mut *tx).await?;
    query(COUNT_OUT).bind(space).bind(account_index_number).execute(tx).await.map(drop)
}

/// Adds the chunks of a memory to every space of the memory that lacks them.
pub(super) async fn show_chunks(tx: &mut Tx<'_>, memory: Uuid, account_index_number: i64) -> Result<(), sqlx::Error> {
    const SQL: &str = "INSERT INTO space_chunks (space_id, account_index, chunk_id)
        SELECT l.space_id, $2, c.id FROM memory_spaces l JOIN chunks c ON c.memory_id = l.memory_id WHERE l.memory_id = $1
        ON CONFLICT DO NOTHING";
    query(SQL).bind(memory).bind(account_index_number).execute(tx).await.map(drop)
}
