//! Stored pages and notes (`docs/decisions/0021-memories.md`).
//!
//! All memories of an account are in its *account index*. A transaction that changes a memory first updates the row of the account index
//! and gets the number of the change from it: changes of one account are serialised, and an in-memory index follows the numbers
//! ([`crate::chunk`]).

pub mod database;
mod delete;
mod edit;
mod home;
mod known;
mod links;
mod list;
mod piece;
mod put;
mod relocate;
pub(crate) mod slot;

pub use delete::{Moved, Unlink};
pub use edit::{Edit, MemoryEdit, TextEdit};
pub use home::{LookAfter, LostMemories};
pub use list::MemoryFilter;
pub use put::Restored;

use domain::ids::{MemoryId, SpaceId, UserAccountId};
use domain::memory::{MemoryType, ModelId, Tag};
use domain::usage::ByPlan;
use domain::{Digest, Timestamp};
use uuid::Uuid;

use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::{query, scalar};
use crate::row::{limit, parsed};
use crate::{Store, joined};

/// A memory to store.
#[derive(Debug, Clone)]
pub struct MemoryPut<'a> {
    /// Its id, if it is new.
    pub id: MemoryId,
    /// Owner of the memory.
    pub account: &'a UserAccountId,
    /// Page or note.
    pub kind: MemoryType,
    /// Its title; may be empty.
    pub title: &'a str,
    /// URL of a page.
    pub url: Option<&'a str>,
    /// The complete text.
    pub content: &'a str,
    /// Digest for duplicate detection: equal for items that are the same memory for one writer.
    pub dedupe: Digest,
    /// Its chunks, in order.
    pub chunks: &'a [ChunkPut<'a>],
    /// The model of the chunks' vectors.
    pub model: Option<&'a ModelId>,
    /// The spaces that it is linked to.
    pub spaces: &'a [SpaceId],
    /// The spaces that the sender's key covers; `None` for all spaces.
    pub key_spaces: Option<&'a [SpaceId]>,
    /// The limits of the account.
    pub quota: MemoryQuota,
}

/// Limits of an account's memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryQuota {
    /// Maximum number of memories.
    pub memories_max: u32,
    /// Maximum size in bytes of the titles, URLs and texts of all memories, by plan; 0 means no limit.
    pub bytes_max: ByPlan<u64>,
}

impl MemoryQuota {
    /// Whether an account of this plan may keep this number of bytes.
    pub(crate) fn permits(&self, plan: &str, bytes: i64) -> Result<bool, Corrupt> {
        let bytes_max = self.bytes_max.of(parsed("accounts.plan", plan)?);
        Ok(bytes_max == 0 || u64::try_from(bytes).unwrap_or_default() <= bytes_max)
    }
}

/// Usage of an account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    /// Number of memories.
    pub memories: u64,
    /// Size in bytes of their titles, URLs and texts.
    pub bytes: u64,
}

/// The size of a memory, as limited by [`MemoryQuota::bytes_max`].
pub(crate) fn size_of(title: &str, url: Option<&str>, content: &str) -> i64 {
    limit(title.len() + url.map_or(0, str::len) + content.len())
}

/// A chunk of a memory to store.
#[derive(Debug, Clone, Copy)]
pub struct ChunkPut<'a> {
    /// Text of the chunk.
    pub content: &'a str,
    /// Its vector; `None` if it is embedded later.
    pub vector: Option<&'a [f32]>,
}

/// Result of storing a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// The memory was created.
    Created(MemoryId),
    /// It exists unchanged, or is also in spaces that the sender's key does not cover. It is linked to the new spaces; its content is
    /// unchanged.
    Existing(MemoryId),
    /// It existed and has changed.
    Updated(MemoryId),
    /// The account has reached its limit.
    QuotaExceeded,
}

/// A stored page or note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// Id of the memory.
    pub id: MemoryId,
    /// Owner of the memory.
    pub account: UserAccountId,
    /// Page or note.
    pub kind: MemoryType,
    /// Its title; may be empty.
    pub title: String,
    /// URL of a page; `None` for a note.
    pub url: Option<String>,
    /// The text, up to the requested number of characters.
    pub content: String,
    /// The spaces that it is linked to.
    pub spaces: Vec<SpaceId>,
    /// Its tags, sorted.
    pub tags: Vec<Tag>,
    /// Number of the account index's change that last changed it.
    pub changed: i64,
    /// Time of the first addition.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// The memories to read. The caller has checked that they may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryScope {
    /// All memories of this account.
    Account(UserAccountId),
    /// All memories that are linked to one of these spaces.
    Spaces(Vec<SpaceId>),
}

impl MemoryScope {
    /// The account, and the spaces as a JSON array, for a statement; one of the two is null.
    pub(crate) fn binds(&self) -> (Option<&str>, Option<String>) {
        match self {
            Self::Account(account) => (Some(account.as_str()), None),
            Self::Spaces(spaces) => (None, Some(json(spaces))),
        }
    }
}

/// The condition that memory `m` is in a scope: `$1` the account, `$2` the spaces.
pub(crate) const IN_SCOPE_SQLITE: &str =
    "(m.account_index = (SELECT number FROM account_indexes WHERE account_id = $1) OR EXISTS (SELECT 1 FROM memory_spaces l
        WHERE l.memory_id = m.id
            AND l.space_id IN (SELECT unhex(replace(value, '-', '')) FROM json_each($2))))";
/// The same on PostgreSQL.
pub(crate) const IN_SCOPE_POSTGRES: &str =
    "(m.account_index = (SELECT number FROM account_indexes WHERE account_id = $1) OR EXISTS (SELECT 1 FROM memory_spaces l
        WHERE l.memory_id = m.id
            AND l.space_id IN (SELECT CAST(value AS UUID) FROM json_array_elements_text(CAST($2 AS json)))))";

/// Memories `m`: [`MemoryRow`]; `$3` is the maximum number of characters of the text.
const SELECT_MEMORIES: &str = joined!(SELECT_MEMORIES_HEAD, "$3", SELECT_MEMORIES_TAIL);
/// The part before the maximum number of characters of the text.
const SELECT_MEMORIES_HEAD: &str =
    "SELECT m.id, s.account_id, m.type AS kind, m.title, m.url, SUBSTR(m.content, 1, CAST(";
/// The part after it.
const SELECT_MEMORIES_TAIL: &str = " AS INTEGER)) AS content,
        m.spaces, m.tags, m.changed, m.created_at, m.updated_at
    FROM memories m JOIN account_indexes s ON s.number = m.account_index ";

impl Store {
    /// A memory in a scope.
    #[boxed]
    pub async fn memory_by_id(&self, id: MemoryId, scope: &MemoryScope) -> Result<Option<Memory>, StoreError> {
        Ok(self.memories_by_id(&[id], scope, CONTENT_WHOLE).await?.pop())
    }

    /// The memories with the given `ids` in a scope, in any order, each with at most `content_max` characters of its text.
    #[boxed]
    pub async fn memories_by_id(
        &self,
        ids: &[MemoryId],
        scope: &MemoryScope,
        content_max: u32,
    ) -> Result<Vec<Memory>, StoreError> {
        const SQLITE: &str = joined!(
            SELECT_MEMORIES,
            "WHERE m.id IN (SELECT unhex(replace(value, '-', '')) FROM json_each($4)) AND ",
            IN_SCOPE_SQLITE
        );
        const POSTGRES: &str = joined!(
            SELECT_MEMORIES,
            "WHERE m.id IN (SELECT CAST(value AS UUID) FROM json_array_elements_text(CAST($4 AS json))) AND ",
            IN_SCOPE_POSTGRES
        );
        let sql = if self.memory()?.is_postgres() { POSTGRES } else { SQLITE };
        let (account, spaces) = scope.binds();
        let ids = json(ids);
        let rows: Vec<MemoryRow> = query(sql)
            .bind(account)
            .bind(&spaces)
            .bind(i64::from(content_max))
            .bind(&ids)
            .fetch_all(self.memory()?)
            .during(Operation::ReadMemories)
            .await?;
        Ok(rows.into_iter().map(Memory::try_from).collect::<Result<_, _>>()?)
    }

    /// The memories of a scope, oldest first, after a given one: pages for lists and for the export.
    #[boxed]
    pub async fn memories_of(
        &self,
        scope: &MemoryScope,
        after: Option<MemoryId>,
        rows_max: usize,
        content_max: u32,
    ) -> Result<Vec<Memory>, StoreError> {
        const OF_ACCOUNT: &str = joined!(
            SELECT_MEMORIES,
            "WHERE $2 IS NULL AND m.account_index = (SELECT number FROM account_indexes WHERE account_id = $1) AND m.id > $4
            ORDER BY m.id LIMIT $5"
        );
        // Walks each space as far as one page needs, instead of all memories.
        const OF_SPACES_SQLITE: &str = joined!(
            SELECT_MEMORIES,
            "WHERE $1 IS NULL AND m.id IN (SELECT DISTINCT l.memory_id FROM json_each($2) w
                JOIN memory_spaces l ON l.space_id = unhex(replace(w.value, '-', ''))
                WHERE l.memory_id > $4 ORDER BY l.memory_id LIMIT $5) ORDER BY m.id"
        );
        const OF_SPACES_POSTGRES: &str = joined!(
            SELECT_MEMORIES,
            "WHERE CAST($1 AS TEXT) IS NULL AND m.id IN (SELECT DISTINCT l.memory_id
                FROM json_array_elements_text(CAST($2 AS json)) w
                JOIN memory_spaces l ON l.space_id = CAST(w.value AS UUID)
                WHERE l.memory_id > $4 ORDER BY l.memory_id LIMIT $5) ORDER BY m.id"
        );
        let sql = match (scope, self.memory()?.is_postgres()) {
            (MemoryScope::Account(_), _) => OF_ACCOUNT,
            (MemoryScope::Spaces(_), false) => OF_SPACES_SQLITE,
            (MemoryScope::Spaces(_), true) => OF_SPACES_POSTGRES,
        };
        let (account, spaces) = scope.binds();
        let after = after.map_or(Uuid::nil(), |id| id.as_uuid());
        let rows: Vec<MemoryRow> = query(sql)
            .bind(account)
            .bind(&spaces)
            .bind(i64::from(content_max))
            .bind(after)
            .bind(limit(rows_max))
            .fetch_all(self.memory()?)
            .during(Operation::ListMemories)
            .await?;
        Ok(rows.into_iter().map(Memory::try_from).collect::<Result<_, _>>()?)
    }

    /// Number of memories of all accounts in a space.
    #[boxed]
    pub async fn memories_in_space(&self, space: SpaceId) -> Result<u64, StoreError> {
        const SQL: &str = "SELECT CAST(COALESCE(SUM(memories), 0) AS BIGINT) FROM space_indexes WHERE space_id = $1";
        let count: i64 =
            scalar(SQL).bind(space.as_uuid()).fetch_one(self.memory()?).during(Operation::CountMemoriesOfSpace).await?;
        Ok(count.max(0).unsigned_abs())
    }

    /// Number of memories of an account.
    #[boxed]
    pub async fn memories_kept(&self, account: &UserAccountId) -> Result<u64, StoreError> {
        Ok(self.memory_usage(account).await?.memories)
    }

    /// Usage of an account.
    #[boxed]
    pub async fn memory_usage(&self, account: &UserAccountId) -> Result<MemoryUsage, StoreError> {
        const SQL: &str = "SELECT memories, bytes FROM account_indexes WHERE account_id = $1";
        let sums: Option<(i64, i64)> = query(SQL)
            .bind(account.as_str())
            .fetch_optional(self.memory()?)
            .during(Operation::CountMemoriesOfAccount)
            .await?;
        let (memories, bytes) = sums.unwrap_or_default();
        Ok(MemoryUsage { memories: memories.max(0).unsigned_abs(), bytes: bytes.max(0).unsigned_abs() })
    }
}

/// More characters than a memory can have.
const CONTENT_WHOLE: u32 = i32::MAX.unsigned_abs();

/// Values as a JSON array, for statements with any number of them.
pub(crate) fn json<T: serde::Serialize>(values: &[T]) -> String {
    serde_json::to_string(values).unwrap_or_else(|_| "[]".to_owned())
}

crate::row! {
    struct MemoryRow {
        id: Uuid,
        account_id: String,
        kind: String,
        title: String,
        url: Option<String>,
        content: String,
        spaces: String,
        tags: String,
        changed: i64,
        created_at: Timestamp,
        updated_at: Timestamp,
    }
}

impl TryFrom<MemoryRow> for Memory {
    type Error = Corrupt;

    fn try_from(row: MemoryRow) -> Result<Self, Corrupt> {
        Ok(Self {
            id: row.id.into(),
            account: parsed("account_indexes.account_id", &row.account_id)?,
            kind: parsed("memories.type", &row.kind)?,
            title: row.title,
            url: row.url,
            content: row.content,
            spaces: spaces_of(&row.spaces)?,
            tags: serde_json::from_str(&row.tags).map_err(|error| Corrupt::new("memories.tags", error))?,
            changed: row.changed,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}

/// Number of deletions that an account index stores for its followers.
pub(crate) fn deletions_kept() -> i64 {
    delete::DELETIONS_KEPT
}

/// The spaces of a memory, from its column.
pub(crate) fn spaces_of(text: &str) -> Result<Vec<SpaceId>, Corrupt> {
    serde_json::from_str(text).map_err(|error| Corrupt::new("memories.spaces", error))
}
