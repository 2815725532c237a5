//! Search, semantic and lexical (`docs/decisions/0037-absolute-similarity.md`).
//!
//! 1. Which shelves may hold an answer, and what was committed on them.
//! 2. Two legs at once: chunks by their words (`lexical`), chunks by the vector of the query (`meaning`, [`crate::index`]).
//! 3. The candidates of both are read, in the scope of who asks. A leg that is full of fewer documents than are wanted is asked once
//!    more, so that no long document keeps the others out (`crowd`).
//! 4. Each candidate gets one absolute similarity (`score`).
//! 5. Chunks become documents; those below the threshold go, the best stay.
//!
//! If the model does not answer, the words alone do.

mod counts;
mod crowd;
mod embed;
mod lexical;
mod meaning;
mod query;
mod round;
mod score;
mod settings;

use std::collections::HashMap;
use std::sync::Arc;

use domain::ids::MemoryId;
use store::memory::Memory;
use store::{Store, StoreError};

use self::counts::Counts;
pub use self::embed::Embed;
use self::lexical::Lexical;
use self::meaning::Meaning;
pub use self::query::SearchQuery;
use self::round::Round;
use self::score::Scored;
pub use self::settings::Settings;
use crate::index::Index;

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchResults {
    /// Documents, most similar first.
    pub found: Vec<Found>,
    /// Why the vector of the query was missing, if it was: then words alone have answered.
    pub by_words_alone: Option<String>,
}

/// A document that answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The document, with as much of its text as an answer may have.
    pub memory: Memory,
    /// That of its best chunk: 0 to 1, four decimals.
    pub similarity: f64,
    /// Its best chunks, best first.
    pub chunks: Vec<Highlight>,
}

/// A chunk that answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Highlight {
    /// Its text.
    pub content: String,
    /// 0 to 1, four decimals.
    pub similarity: f64,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The store did not answer.
    #[error("cannot search")]
    Store(#[from] StoreError),
}

/// Searches. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Search<E> {
    store: Store,
    embedder: E,
    index: Index,
    counts: Counts,
    settings: Arc<Settings>,
}

impl<E: Embed> Search<E> {
    /// Nothing in memory yet.
    pub fn new(store: Store, embedder: E, settings: Settings) -> Self {
        let index = Index::new(store.clone(), settings.index.clone());
        Self { store, embedder, index, counts: Counts::default(), settings: Arc::new(settings) }
    }

    /// Who compares the vectors.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Documents that answer a query.
    pub async fn search(&self, query: &SearchQuery) -> Result<SearchResults, SearchError> {
        let shelves = self.store.shelves_in(&query.scope, self.settings.shelves_max).await?;
        if shelves.is_empty() || query.limit == 0 {
            return Ok(SearchResults { found: Vec::new(), by_words_alone: None });
        }
        let round = Round {
            store: &self.store,
            embedder: &self.embedder,
            index: &self.index,
            settings: &self.settings,
            shelves: &shelves,
            query,
        };
        let (lexical, meaning) = tokio::join!(
            Lexical::look_up(&self.store, &self.counts, &shelves, query, &self.settings),
            Meaning::look_up(&round)
        );
        let (lexical, meaning) = (lexical?, meaning?);
        let passages = crowd::passages(&round, &lexical, &meaning).await?;
        let Meaning { vector, missing, .. } = meaning;
        let (weight, text) = (self.settings.meaning_weight, query.text.clone());
        let words_max = self.settings.words_max;
        let scoring = tokio::task::spawn_blocking(move || {
            let stems = domain::words::asked(&text, words_max);
            score::scored(passages, &stems, &lexical, vector.as_deref(), weight)
        });
        // Arithmetic; it ends early only with the runtime.
        let scored = scoring.await.unwrap_or_default();
        let found = self.documents(scored, query).await?;
        Ok(SearchResults { found, by_words_alone: missing })
    }

    /// The best documents of the scored chunks, read as they are now.
    async fn documents(&self, scored: Vec<Scored>, query: &SearchQuery) -> Result<Vec<Found>, StoreError> {
        let mut documents: HashMap<MemoryId, Vec<Scored>> = HashMap::new();
        for scored in scored.into_iter().filter(|scored| scored.similarity >= query.threshold) {
            documents.entry(scored.memory).or_default().push(scored);
        }
        let mut best: Vec<(MemoryId, Vec<Scored>)> = documents.into_iter().collect();
        for (_, chunks) in &mut best {
            chunks.sort_by(|a, b| b.similarity.total_cmp(&a.similarity).then(a.chunk.cmp(&b.chunk)));
            chunks.truncate(self.settings.chunks_shown);
        }
        let top = |chunks: &[Scored]| chunks.first().map_or(0.0, |chunk| chunk.similarity);
        // Of equals, the newer first.
        best.sort_by(|a, b| top(&b.1).total_cmp(&top(&a.1)).then(b.0.cmp(&a.0)));
        best.truncate(query.limit);
        let ids: Vec<MemoryId> = best.iter().map(|(memory, _)| *memory).collect();
        let memories = self.store.memories_by_id(&ids, &query.scope, self.settings.content_max).await?;
        let mut memories: HashMap<MemoryId, Memory> = memories.into_iter().map(|memory| (memory.id, memory)).collect();
        let found = best.into_iter().filter_map(|(id, chunks)| {
            let similarity = top(&chunks);
            let chunks =
                chunks.into_iter().map(|chunk| Highlight { content: chunk.content, similarity: chunk.similarity });
            // One that was deleted meanwhile is no answer.
            memories.remove(&id).map(|memory| Found { memory, similarity, chunks: chunks.collect() })
        });
        Ok(found.collect())
    }
}
