//! Long documents, and those beside them.
//!
//! A leg proposes a few chunks for each document that is wanted. When few documents have nearly all of the best chunks, they fill it, and
//! the next document is not among the candidates, however well it answers. Such a leg is asked once more, for no more chunks of a
//! document than its share: then each leg has proposed as many documents as are wanted, or all that there are.

use std::collections::{HashMap, HashSet};

use domain::ids::MemoryId;
use store::StoreError;
use store::passage::{AccountStatistics, Chunk, ChunkId, Wanted};

use super::lexical::Lexical;
use super::meaning::Meaning;
use super::{Embed, Search, SearchQuery};

impl<E: Embed> Search<E> {
    /// The candidates of both legs, each once.
    pub(super) async fn passages(
        &self,
        shelves: &[AccountStatistics],
        lexical: &Lexical,
        meaning: &Meaning,
        query: &SearchQuery,
    ) -> Result<Vec<Chunk>, StoreError> {
        let mut candidates: Vec<ChunkId> = lexical.chunks.iter().chain(&meaning.chunks).copied().collect();
        candidates.sort_unstable();
        candidates.dedup();
        let mut passages = self.read(&candidates, meaning, query).await?;
        let mut others = self.beside(&passages, shelves, lexical, meaning, query).await?;
        others.sort_unstable();
        others.dedup();
        others.retain(|chunk| candidates.binary_search(chunk).is_err());
        if !others.is_empty() {
            passages.extend(self.read(&others, meaning, query).await?);
        }
        Ok(passages)
    }

    async fn read(&self, chunks: &[ChunkId], meaning: &Meaning, query: &SearchQuery) -> Result<Vec<Chunk>, StoreError> {
        let model = meaning.vector.as_ref().and_then(|_| self.embedder.model());
        self.store.passages(chunks, &query.scope, model).await
    }

    /// What crowded legs propose when they are asked again.
    async fn beside(
        &self,
        passages: &[Chunk],
        shelves: &[AccountStatistics],
        lexical: &Lexical,
        meaning: &Meaning,
        query: &SearchQuery,
    ) -> Result<Vec<ChunkId>, StoreError> {
        let memories: HashMap<ChunkId, MemoryId> =
            passages.iter().map(|passage| (passage.chunk, passage.memory)).collect();
        let crowded = |chunks: &[ChunkId]| {
            let documents: HashSet<&MemoryId> = chunks.iter().filter_map(|chunk| memories.get(chunk)).collect();
            documents.len() < query.limit
        };
        let by_words = async {
            if lexical.is_full() && crowded(&lexical.chunks) {
                return lexical.spread(&self.store, query, &self.settings).await;
            }
            Ok(Vec::new())
        };
        let by_meaning = async {
            let count = self.settings.candidates(query.limit);
            match &meaning.vector {
                Some(vector) if meaning.chunks.len() >= count && crowded(&meaning.chunks) => {
                    self.nearest(shelves, vector, Wanted::spread(count, query.limit), query).await
                }
                _ => Ok(Vec::new()),
            }
        };
        let (mut others, by_meaning) = tokio::try_join!(by_words, by_meaning)?;
        others.extend(by_meaning);
        Ok(others)
    }
}
