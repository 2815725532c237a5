//! Reads the changes of an account index, for an in-memory index that must agree with the committed rows.

use domain::ids::{MemoryId, SpaceId};
use domain::memory::ModelId;
use uuid::Uuid;

use super::ChunkId;
use crate::Store;
use crate::error::StoreError;
use crate::memory::{deletions_kept, spaces_of};
use crate::operation::{During, Operation};
use crate::pool::{query, scalar};
use crate::row::limit;

/// Changes of an account index, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Changes {
    /// The last included change, or the requested `since` if there is none.
    pub upto: i64,
    /// Whether the index has to be rebuilt: the deletions since its state are no longer stored.
    pub anew: bool,
    /// Current state of the changed memories.
    pub memories: Vec<Followed>,
}

/// Current state of a memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Followed {
    /// Id of the memory.
    pub memory: MemoryId,
    /// The spaces that it is linked to.
    pub spaces: Vec<SpaceId>,
    /// Its chunks with a vector of the model, packed; empty if the memory was deleted.
    pub vectors: Vec<(ChunkId, Vec<u8>)>,
}

impl Store {
    /// Changes of an account index after the change `since`, of about `memories_max` memories; `since` = 0 reads from the start.
    #[boxed]
    pub async fn account_index_changes(
        &self,
        account_index_number: i64,
        since: i64,
        model: &ModelId,
        memories_max: usize,
    ) -> Result<Changes, StoreError> {
        // Each is one statement, so that a memory that changes during the call is either complete here or returned by the next call.
        const DELETED: &str = "SELECT memory_id, changed FROM memories_deleted
            WHERE account_index = $1 AND changed > $2 ORDER BY changed LIMIT $3";
        const CHANGED: &str = "SELECT m.id, m.changed, m.spaces, c.id AS chunk, v.vector
            FROM (SELECT id, changed, spaces FROM memories WHERE account_index = $1 AND changed > $2 ORDER BY changed LIMIT $3) m
                LEFT JOIN chunks c ON c.memory_id = m.id
                LEFT JOIN vectors v ON v.chunk_id = c.id AND v.model = $4
            ORDER BY m.changed, c.id";
        const NEWEST: &str = "SELECT changes FROM account_indexes WHERE number = $1";
        const DO: Operation = Operation::FollowChangesOfAccountIndex;
        let newest: Option<i64> =
            scalar(NEWEST).bind(account_index_number).fetch_optional(self.memory()?).during(DO).await?;
        let newest = newest.unwrap_or(0);
        let anew = since > 0 && since < newest - deletions_kept();
        let since = if anew { 0 } else { since };
        let model = model.to_string();
        // A follower that starts has no memories that could have been deleted.
        let deleted: Vec<(Uuid, i64)> = if since == 0 {
            Vec::new()
        } else {
            query(DELETED)
                .bind(account_index_number)
                .bind(since)
                .bind(limit(memories_max))
                .fetch_all(self.memory()?)
                .during(DO)
                .await?
        };
        let changed: Vec<ChangedRow> = query(CHANGED)
            .bind(account_index_number)
            .bind(since)
            .bind(limit(memories_max))
            .bind(&model)
            .fetch_all(self.memory()?)
            .during(DO)
            .await?;
        let mut memories: Vec<(i64, Followed)> = Vec::new();
        for row in changed {
            let memory = row.id.into();
            if memories.last().is_none_or(|(_, last)| last.memory != memory) {
                let spaces = spaces_of(&row.spaces)?;
                memories.push((row.changed, Followed { memory, spaces, vectors: Vec::new() }));
            }
            if let (Some(chunk), Some(vector), Some((_, last))) = (row.chunk, row.vector, memories.last_mut()) {
                last.vectors.push((chunk, vector));
            }
        }
        // A full page ends at its last change; beyond it, the other list may have gaps.
        let end =
            |count: usize, last: Option<i64>| if count < memories_max { i64::MAX } else { last.unwrap_or(i64::MAX) };
        let upto = end(deleted.len(), deleted.last().map(|(_, changed)| *changed))
            .min(end(memories.len(), memories.last().map(|(changed, _)| *changed)));
        // Changes after `newest` was read may be incomplete.
        let upto = if upto == i64::MAX { newest.max(since) } else { upto };
        let gone = deleted.into_iter().map(|(memory, changed)| {
            (changed, Followed { memory: memory.into(), spaces: Vec::new(), vectors: Vec::new() })
        });
        memories.extend(gone);
        memories.sort_by_key(|(changed, _)| *changed);
        // Changes beyond the end are returned too: they are committed, and the next call returns them again.
        Ok(Changes { upto, anew, memories: memories.into_iter().map(|(_, followed)| followed).collect() })
    }
}

crate::row! {
    struct ChangedRow {
        id: Uuid,
        changed: i64,
        spaces: String,
        chunk: Option<i64>,
        vector: Option<Vec<u8>>,
    }
}
