//! Chunks of memories, and their full-text and vector search (`docs/decisions/0022-search.md` and `docs/decisions/0023-vectors.md`).
//!
//! Chunks are found by their words ([`words`]), in the database's own index, or by their vectors. A process keeps an index of the vectors
//! in memory and follows the changes of the account index ([`follow`]), or lets the database compare them ([`near`]). The candidates are
//! read here, in the scope of the caller.

pub mod common;
pub mod embedding;
pub mod follow;
pub mod near;
mod replica;
pub mod vector;
pub mod words;

use domain::ids::MemoryId;
use domain::language::{Language, LanguageSet};
use domain::memory::ModelId;
use uuid::Uuid;

use crate::error::StoreError;
use crate::memory::{IN_SCOPE_POSTGRES, IN_SCOPE_SQLITE, MemoryScope, json};
use crate::operation::{During, Operation};
use crate::pool::query;
use crate::{Store, joined};

/// Number of a chunk; numbers are never reused.
pub type ChunkId = i64;

crate::row! {
    /// Counts of an account's memories.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct AccountStatistics {
        /// Number of the account index.
        pub number: i64,
        /// Number of chunks of all its memories.
        pub chunks: i64,
        /// The sum of their lengths, in words.
        pub words: i64,
        /// Number of the newest change.
        pub changes: i64,
        /// The languages of its memories, as [`LanguageSet::bits`].
        pub languages: i64,
    }
}

/// Limits of the chunks of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkLimits {
    /// Maximum number of chunks.
    pub chunks_max: usize,
    /// Maximum number of chunks of one memory; `None` for no limit.
    pub each_max: Option<usize>,
}

impl ChunkLimits {
    /// The best chunks, without a limit per memory.
    pub fn any(chunks_max: usize) -> Self {
        Self { chunks_max, each_max: None }
    }

    /// About `chunks` chunks, spread over up to `memories` memories: each memory gets at most an equal share.
    pub fn spread(chunks: usize, memories: usize) -> Self {
        let each = chunks.checked_div(memories).unwrap_or(chunks).max(1);
        Self { chunks_max: chunks.max(memories), each_max: Some(each) }
    }
}

/// A chunk of a search result, before scoring.
#[derive(Debug, Clone, PartialEq)]
pub struct Chunk {
    /// Number of the chunk.
    pub chunk: ChunkId,
    /// Id of the memory that contains it.
    pub memory: MemoryId,
    /// Number of its account index.
    pub account_index: i64,
    /// Title of the memory.
    pub title: String,
    /// Language of the memory, in which its words are stemmed.
    pub language: Language,
    /// Text of the chunk.
    pub content: String,
    /// Its length in words; words of the title are weighted.
    pub words: u32,
    /// Its vector, if it is embedded.
    pub vector: Option<Vec<f32>>,
}

impl AccountStatistics {
    /// The languages of the account's memories.
    pub fn languages(&self) -> LanguageSet {
        LanguageSet::from_bits(self.languages)
    }
}

impl Store {
    /// The account indexes with memories of a scope, at most `account_indexes_max`, largest first.
    #[boxed]
    pub async fn account_indexes_in(
        &self,
        scope: &MemoryScope,
        account_indexes_max: usize,
    ) -> Result<Vec<AccountStatistics>, StoreError> {
        const OF_ACCOUNT: &str = "SELECT number, chunks, words, changes, languages FROM account_indexes
            WHERE account_id = $1 AND $2 IS NULL LIMIT $3";
        const OF_SPACES_SQLITE: &str = "SELECT number, chunks, words, changes, languages FROM account_indexes
            WHERE $1 IS NULL AND number IN (SELECT s.account_index FROM space_indexes s WHERE s.memories > 0
                AND s.space_id IN (SELECT unhex(replace(value, '-', '')) FROM json_each($2)))
            ORDER BY chunks DESC, number LIMIT $3";
        const OF_SPACES_POSTGRES: &str = "SELECT number, chunks, words, changes, languages FROM account_indexes
            WHERE $1 IS NULL AND number IN (SELECT s.account_index FROM space_indexes s WHERE s.memories > 0
                AND s.space_id IN (SELECT CAST(value AS UUID) FROM json_array_elements_text(CAST($2 AS json))))
            ORDER BY chunks DESC, number LIMIT $3";
        let sql = match (scope, self.memory()?.is_postgres()) {
            (MemoryScope::Account(_), _) => OF_ACCOUNT,
            (MemoryScope::Spaces(_), false) => OF_SPACES_SQLITE,
            (MemoryScope::Spaces(_), true) => OF_SPACES_POSTGRES,
        };
        let (account, spaces) = scope.binds();
        query(sql)
            .bind(account)
            .bind(&spaces)
            .bind(crate::row::limit(account_indexes_max))
            .fetch_all(self.memory()?)
            .during(Operation::FindAccountIndexesOfSearch)
            .await
    }

    /// The given `chunks` that are in a scope, with their vectors of `model`, in any order.
    #[boxed]
    pub async fn chunks(
        &self,
        chunks: &[ChunkId],
        scope: &MemoryScope,
        model: Option<&ModelId>,
    ) -> Result<Vec<Chunk>, StoreError> {
        const SQLITE: &str = joined!(
            "SELECT c.id, c.memory_id, m.account_index, m.title, m.language, c.content, c.words, v.vector
            FROM chunks c JOIN memories m ON m.id = c.memory_id
                LEFT JOIN vectors v ON v.chunk_id = c.id AND v.model = $3
            WHERE c.id IN (SELECT value FROM json_each($4)) AND ",
            IN_SCOPE_SQLITE
        );
        const POSTGRES: &str = joined!(
            "SELECT c.id, c.memory_id, m.account_index, m.title, m.language, c.content, c.words, v.vector
            FROM chunks c JOIN memories m ON m.id = c.memory_id
                LEFT JOIN vectors v ON v.chunk_id = c.id AND v.model = $3
            WHERE c.id IN (SELECT CAST(value AS BIGINT) FROM json_array_elements_text(CAST($4 AS json))) AND ",
            IN_SCOPE_POSTGRES
        );
        let sql = if self.memory()?.is_postgres() { POSTGRES } else { SQLITE };
        let (account, spaces) = scope.binds();
        let (model, chunks) = (model.map(ToString::to_string), json(chunks));
        let rows: Vec<ChunkRow> = query(sql)
            .bind(account)
            .bind(&spaces)
            .bind(&model)
            .bind(&chunks)
            .fetch_all(self.memory()?)
            .during(Operation::ReadChunks)
            .await?;
        rows.into_iter().map(ChunkRow::into_chunk).collect()
    }
}

crate::row! {
    struct ChunkRow {
        id: i64,
        memory_id: Uuid,
        account_index: i64,
        title: String,
        language: String,
        content: String,
        words: i64,
        vector: Option<Vec<u8>>,
    }
}

impl ChunkRow {
    fn into_chunk(self) -> Result<Chunk, StoreError> {
        Ok(Chunk {
            chunk: self.id,
            memory: self.memory_id.into(),
            account_index: self.account_index,
            title: self.title,
            language: language_of(&self.language),
            content: self.content,
            words: crate::row::count("chunks.words", self.words)?,
            vector: self.vector.as_deref().map(vector::unpacked).transpose()?,
        })
    }
}

/// The language of a column; the default for an unknown language, which a newer version may have written.
pub(crate) fn language_of(column: &str) -> Language {
    Language::of_code(column).unwrap_or_default()
}
