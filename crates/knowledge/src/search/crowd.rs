//! Keeps long documents from crowding out others.
//!
//! A search proposes a few chunks per requested document. If few documents contain nearly all of the best chunks, other
//! documents are not among the candidates. Such a search is queried again with a limit of chunks per document. Each search
//! then has candidates from as many documents as requested, or from all that exist.

use std::collections::{HashMap, HashSet};

use domain::ids::MemoryId;
use store::StoreError;
use store::chunk::{Chunk, ChunkId, ChunkLimits};

use super::context::SearchContext;
use super::embed::Embed;
use super::lexical::LexicalSearch;
use super::meaning::{SemanticSearch, nearest};
use super::settings::candidates;

/// The candidates of both searches, without duplicates.
pub(super) async fn chunks<E: Embed>(
    context: &SearchContext<'_, E>,
    lexical: &LexicalSearch,
    meaning: &SemanticSearch,
) -> Result<Vec<Chunk>, StoreError> {
    let mut candidates: Vec<ChunkId> = lexical.chunks.iter().chain(&meaning.chunks).copied().collect();
    candidates.sort_unstable();
    candidates.dedup();
    let mut chunks = read(context, &candidates, meaning).await?;
    let mut others = beside(context, &chunks, lexical, meaning).await?;
    others.sort_unstable();
    others.dedup();
    others.retain(|chunk| candidates.binary_search(chunk).is_err());
    if !others.is_empty() {
        chunks.extend(read(context, &others, meaning).await?);
    }
    Ok(chunks)
}

async fn read<E: Embed>(
    context: &SearchContext<'_, E>,
    chunks: &[ChunkId],
    meaning: &SemanticSearch,
) -> Result<Vec<Chunk>, StoreError> {
    let model = meaning.vector.as_ref().and_then(|_| context.embedder.model());
    context.store.chunks(chunks, &context.query.scope, model).await
}

/// The candidates of crowded searches when they are queried again.
async fn beside<E: Embed>(
    context: &SearchContext<'_, E>,
    chunks: &[Chunk],
    lexical: &LexicalSearch,
    meaning: &SemanticSearch,
) -> Result<Vec<ChunkId>, StoreError> {
    let limit = context.query.limit;
    let memories: HashMap<ChunkId, MemoryId> = chunks.iter().map(|chunk| (chunk.chunk, chunk.memory)).collect();
    let crowded = |chunks: &[ChunkId]| {
        let documents: HashSet<&MemoryId> = chunks.iter().filter_map(|chunk| memories.get(chunk)).collect();
        documents.len() < limit
    };
    let by_words = async {
        if lexical.is_full() && crowded(&lexical.chunks) {
            return lexical.spread(context.store, context.query, context.settings).await;
        }
        Ok(Vec::new())
    };
    let by_meaning = async {
        let count = candidates(limit);
        match &meaning.vector {
            Some(vector) if meaning.chunks.len() >= count && crowded(&meaning.chunks) => {
                nearest(context, vector, ChunkLimits::spread(count, limit)).await
            }
            _ => Ok(Vec::new()),
        }
    };
    let (mut others, by_meaning) = tokio::try_join!(by_words, by_meaning)?;
    others.extend(by_meaning);
    Ok(others)
}
