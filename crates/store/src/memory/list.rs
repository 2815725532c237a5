//! Lists of memories, newest first, and the tags of an account.

use domain::ids::{MemoryId, SpaceId, UserAccountId};
use domain::memory::{MemoryType, Tag};
use uuid::Uuid;

use super::{Memory, MemoryRow, MemoryScope, SELECT_MEMORIES_HEAD, SELECT_MEMORIES_TAIL};
use crate::Store;
use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::{QueryBuilder, query};
use crate::row::{limit, parsed};

/// Filter of a list. Ids of version 7 start with the time of the addition, so a range of ids is a range of time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryFilter {
    /// Only this type.
    pub kind: Option<MemoryType>,
    /// Only memories with this tag.
    pub tag: Option<Tag>,
    /// Only ids from this one on.
    pub from: Option<MemoryId>,
    /// Only ids before this one: the cursor, or the end of a day.
    pub before: Option<MemoryId>,
}

impl Store {
    /// The memories of a scope that pass a filter, newest first, each with at most `content_max` characters of its text.
    #[boxed]
    pub async fn memories_listed(
        &self,
        scope: &MemoryScope,
        filter: &MemoryFilter,
        rows_max: usize,
        content_max: u32,
    ) -> Result<Vec<Memory>, StoreError> {
        let (account, spaces) = scope.binds();
        let mut sql = QueryBuilder::new(SELECT_MEMORIES_HEAD);
        sql.push_bind(i64::from(content_max)).push(SELECT_MEMORIES_TAIL);
        match scope {
            MemoryScope::Account(_) => {
                sql.push(" WHERE m.account_index = (SELECT number FROM account_indexes WHERE account_id = ")
                    .push_bind(account)
                    .push(")");
                if let Some(tag) = &filter.tag {
                    sql.push(
                        " AND m.id IN (SELECT t.memory_id FROM memory_tags t
                        WHERE t.account_index = (SELECT number FROM account_indexes WHERE account_id = ",
                    );
                    sql.push_bind(account).push(") AND t.tag = ").push_bind(tag.as_str()).push(")");
                }
                filtered(&mut sql, filter);
            }
            MemoryScope::Spaces(_) => {
                // Walks each space as far as one page needs.
                sql.push(
                    " WHERE m.id IN (SELECT DISTINCT m.id FROM memory_spaces l JOIN memories m ON m.id = l.memory_id",
                );
                sql.push(" WHERE l.space_id IN (SELECT ");
                if self.memory()?.is_postgres() {
                    sql.push("CAST(w.value AS UUID) FROM json_array_elements_text(CAST(")
                        .push_bind(spaces)
                        .push(" AS json)) w)");
                } else {
                    sql.push("unhex(replace(w.value, '-', '')) FROM json_each(").push_bind(spaces).push(") w)");
                }
                if let Some(tag) = &filter.tag {
                    sql.push(" AND EXISTS (SELECT 1 FROM memory_tags t WHERE t.memory_id = m.id AND t.tag = ");
                    sql.push_bind(tag.as_str()).push(")");
                }
                filtered(&mut sql, filter);
                sql.push(" ORDER BY m.id DESC LIMIT ").push_bind(limit(rows_max)).push(")");
            }
        }
        sql.push(" ORDER BY m.id DESC LIMIT ").push_bind(limit(rows_max));
        let rows: Vec<MemoryRow> = sql.build().fetch_all(self.memory()?).during(Operation::ListMemories).await?;
        Ok(rows.into_iter().map(Memory::try_from).collect::<Result<_, _>>()?)
    }

    /// The tags of an account with the number of memories of each, most frequent first.
    #[boxed]
    pub async fn tags_of_account(
        &self,
        account: &UserAccountId,
        rows_max: usize,
    ) -> Result<Vec<(Tag, u64)>, StoreError> {
        const SQL: &str = "SELECT tag, COUNT(*) AS memories FROM memory_tags
            WHERE account_index = (SELECT number FROM account_indexes WHERE account_id = $1)
            GROUP BY tag ORDER BY memories DESC, tag LIMIT $2";
        let rows: Vec<(String, i64)> = query(SQL)
            .bind(account.as_str())
            .bind(limit(rows_max))
            .fetch_all(self.memory()?)
            .during(Operation::ListTagsOfAccount)
            .await?;
        let tag = |(tag, count): (String, i64)| -> Result<_, Corrupt> {
            Ok((parsed("memory_tags.tag", &tag)?, count.max(0).unsigned_abs()))
        };
        Ok(rows.into_iter().map(tag).collect::<Result<_, _>>()?)
    }

    /// Memories of any account that are in a space, with their owners, in any order.
    #[boxed]
    pub async fn memories_linked(
        &self,
        space: SpaceId,
        rows_max: usize,
    ) -> Result<Vec<(MemoryId, UserAccountId)>, StoreError> {
        const SQL: &str = "SELECT l.memory_id, s.account_id FROM memory_spaces l
                JOIN memories m ON m.id = l.memory_id JOIN account_indexes s ON s.number = m.account_index
            WHERE l.space_id = $1 ORDER BY l.memory_id LIMIT $2";
        let rows: Vec<(Uuid, String)> = query(SQL)
            .bind(space.as_uuid())
            .bind(limit(rows_max))
            .fetch_all(self.memory()?)
            .during(Operation::ListMemories)
            .await?;
        let linked = |(id, account): (Uuid, String)| -> Result<_, Corrupt> {
            Ok((id.into(), parsed("account_indexes.account_id", &account)?))
        };
        Ok(rows.into_iter().map(linked).collect::<Result<_, _>>()?)
    }
}

/// Conditions on memories `m`.
fn filtered<'q>(sql: &mut QueryBuilder<'q>, filter: &'q MemoryFilter) {
    if let Some(kind) = filter.kind {
        sql.push(" AND m.type = ").push_bind(kind.as_str());
    }
    if let Some(from) = filter.from {
        sql.push(" AND m.id >= ").push_bind(from.as_uuid());
    }
    if let Some(before) = filter.before {
        sql.push(" AND m.id < ").push_bind(before.as_uuid());
    }
}
