//! Search, semantic and lexical (`docs/decisions/0022-search.md`).
//!
//! 1. The store returns the accounts to search and their statistics.
//! 2. Two searches run concurrently: `lexical` proposes chunks by words, `meaning` by the vector of the query
//!    ([`crate::index`]).
//! 3. The store reads the candidates within the caller's scope. A search with candidates from too few documents is queried
//!    again with a limit per document, so that a long document cannot crowd out the others (`crowd`).
//! 4. `score` computes one absolute similarity per candidate: by words and vector, and by its nearness to the best one.
//! 5. Chunks are grouped by document; documents below the threshold are dropped, and the best are returned.
//!
//! If the model fails, the result is from the lexical search only.

mod context;
mod counts;
mod crowd;
mod embed;
mod lexical;
mod meaning;
mod query;
mod score;
mod settings;
mod stems;

use std::collections::HashMap;
use std::sync::Arc;

use domain::ids::MemoryId;
use domain::language::LanguageSet;
use store::chunk::AccountStatistics;
use store::memory::Memory;
use store::{Store, StoreError};

use self::context::SearchContext;
use self::counts::StemCountCache;
pub use self::embed::Embed;
use self::lexical::LexicalSearch;
use self::meaning::SemanticSearch;
pub use self::query::SearchQuery;
use self::score::{ScoreWeights, ScoredChunk};
use self::settings::NEIGHBOUR_WEIGHT;
pub use self::settings::{Settings, WORDS_MAX};
use self::stems::QueryStems;
use crate::blocking;
use crate::index::Index;

/// Maximum number of accounts per search of spaces, largest first.
const ACCOUNTS_MAX: usize = 32;

/// Maximum number of chunks per document in a result.
const CHUNKS_SHOWN: usize = 5;

/// Maximum length of a document's text in a result, in characters.
const CONTENT_CHARS_MAX: u32 = 100_000;

/// Result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchResults {
    /// Documents, most similar first.
    pub found: Vec<SearchHit>,
    /// Why the query was not embedded, if it was not; the result is then lexical only.
    pub by_words_alone: Option<String>,
}

/// A document of the result.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    /// The document, with its text up to 100,000 characters.
    pub memory: Memory,
    /// Similarity of its best chunk: 0 to 1, with four decimals.
    pub similarity: f64,
    /// Its best chunks, best first.
    pub chunks: Vec<Highlight>,
}

/// A chunk of the result.
#[derive(Debug, Clone, PartialEq)]
pub struct Highlight {
    /// Text of the chunk.
    pub content: String,
    /// Similarity: 0 to 1, with four decimals.
    pub similarity: f64,
}

/// Why a search failed.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The store failed.
    #[error("cannot search")]
    Store(#[from] StoreError),
}

/// Searches memories. Clones share the index.
#[derive(Debug, Clone)]
pub struct Search<E> {
    store: Store,
    embedder: E,
    index: Index,
    counts: StemCountCache,
    settings: Arc<Settings>,
}

impl<E: Embed> Search<E> {
    /// Creates a search with an empty index.
    pub fn new(store: Store, embedder: E, settings: Settings) -> Self {
        let index = Index::new(store.clone(), settings.index.clone());
        Self { store, embedder, index, counts: StemCountCache::default(), settings: Arc::new(settings) }
    }

    /// The vector index.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Searches for documents.
    #[boxed]
    pub async fn search(&self, query: &SearchQuery) -> Result<SearchResults, SearchError> {
        let account_indexes = self.store.account_indexes_in(&query.scope, ACCOUNTS_MAX).await?;
        if account_indexes.is_empty() || query.limit == 0 {
            return Ok(SearchResults { found: Vec::new(), by_words_alone: None });
        }
        let store = self.store.for_search(&query.scope, &account_indexes, ACCOUNTS_MAX).await;
        match self.search_in(&store, &account_indexes, query).await {
            Err(SearchError::Store(error)) if store.is_replica() => {
                self.store.search_failed(&error);
                self.search_in(&self.store, &account_indexes, query).await
            }
            done => done,
        }
    }

    /// Searches the accounts in `store`, the database or its replica.
    async fn search_in(
        &self,
        store: &Store,
        account_indexes: &[AccountStatistics],
        query: &SearchQuery,
    ) -> Result<SearchResults, SearchError> {
        let context = SearchContext {
            store,
            embedder: &self.embedder,
            index: &self.index,
            settings: &self.settings,
            account_indexes,
            query,
        };
        let languages = account_indexes
            .iter()
            .fold(LanguageSet::default(), |all, account_index| all.union(account_index.languages()));
        let stems = QueryStems::of(&query.text, WORDS_MAX, languages);
        let (lexical, meaning) = tokio::join!(
            LexicalSearch::look_up(store, &self.counts, account_indexes, query, &stems, &self.settings),
            SemanticSearch::look_up(&context)
        );
        let (lexical, meaning) = (lexical?, meaning?);
        let chunks = crowd::chunks(&context, &lexical, &meaning).await?;
        let SemanticSearch { vector, missing, .. } = meaning;
        let weights = ScoreWeights { meaning: self.settings.meaning_weight, neighbour: NEIGHBOUR_WEIGHT };
        let scored =
            blocking::compute(move || score::scored(chunks, &stems, &lexical, vector.as_deref(), weights)).await;
        let documents = self.documents(store, scored, query).await?;
        Ok(SearchResults { found: documents, by_words_alone: missing })
    }

    /// Groups scored chunks by document and reads the best documents.
    async fn documents(
        &self,
        store: &Store,
        scored: Vec<ScoredChunk>,
        query: &SearchQuery,
    ) -> Result<Vec<SearchHit>, StoreError> {
        let mut documents: HashMap<MemoryId, Vec<ScoredChunk>> = HashMap::new();
        for scored in scored.into_iter().filter(|scored| scored.similarity >= query.threshold) {
            documents.entry(scored.memory).or_default().push(scored);
        }
        let mut best: Vec<(MemoryId, Vec<ScoredChunk>)> = documents.into_iter().collect();
        for (_, chunks) in &mut best {
            chunks.sort_by(|a, b| b.similarity.total_cmp(&a.similarity).then(a.chunk.cmp(&b.chunk)));
            chunks.truncate(CHUNKS_SHOWN);
        }
        let top = |chunks: &[ScoredChunk]| chunks.first().map_or(0.0, |chunk| chunk.similarity);
        // Equal similarities are ordered newest first.
        best.sort_by(|a, b| top(&b.1).total_cmp(&top(&a.1)).then(b.0.cmp(&a.0)));
        best.truncate(query.limit);
        let ids: Vec<MemoryId> = best.iter().map(|(memory, _)| *memory).collect();
        let memories = store.memories_by_id(&ids, &query.scope, CONTENT_CHARS_MAX).await?;
        let mut memories: HashMap<MemoryId, Memory> = memories.into_iter().map(|memory| (memory.id, memory)).collect();
        let hits = best.into_iter().filter_map(|(id, chunks)| {
            let similarity = top(&chunks);
            let chunks =
                chunks.into_iter().map(|chunk| Highlight { content: chunk.content, similarity: chunk.similarity });
            // A memory deleted in the meantime is left out.
            memories.remove(&id).map(|memory| SearchHit { memory, similarity, chunks: chunks.collect() })
        });
        Ok(hits.collect())
    }
}
