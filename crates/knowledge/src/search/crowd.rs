//! Keeps long documents from crowding out others.
//!
//! A leg proposes a few chunks per requested document. If few documents contain nearly all of the best chunks, other
//! documents are not among the candidates. Such a leg is queried again with a limit of chunks per document. Each leg
//! then has candidates from as many documents as requested, or from all that exist.

use std::collections::{HashMap, HashSet};

use domain::ids::MemoryId;
use store::StoreError;
use store::passage::{Chunk, ChunkId, ChunkLimits};

use super::context::SearchContext;
use super::embed::Embed;
use super::lexical::LexicalLeg;
use super::meaning::{SemanticLeg, nearest};
use super::settings::candidates;

/// The candidates of both legs, without duplicates.
pub(super) async fn passages<E: Embed>(
    context: &SearchContext<'_, E>,
    lexical: &LexicalLeg,
    meaning: &SemanticLeg,
) -> Result<Vec<Chunk>, StoreError> {
    let mut candidates: Vec<ChunkId> = lexical.chunks.iter().chain(&meaning.chunks).copied().collect();
    candidates.sort_unstable();
    candidates.dedup();
    let mut passages = read(context, &candidates, meaning).await?;
    let mut others = beside(context, &passages, lexical, meaning).await?;
    others.sort_unstable();
    others.dedup();
    others.retain(|chunk| candidates.binary_search(chunk).is_err());
    if !others.is_empty() {
        passages.extend(read(context, &others, meaning).await?);
    }
    Ok(passages)
}

async fn read<E: Embed>(
    context: &SearchContext<'_, E>,
    chunks: &[ChunkId],
    meaning: &SemanticLeg,
) -> Result<Vec<Chunk>, StoreError> {
    let model = meaning.vector.as_ref().and_then(|_| context.embedder.model());
    context.store.passages(chunks, &context.query.scope, model).await
}

/// The candidates of crowded legs when they are queried again.
async fn beside<E: Embed>(
    context: &SearchContext<'_, E>,
    passages: &[Chunk],
    lexical: &LexicalLeg,
    meaning: &SemanticLeg,
) -> Result<Vec<ChunkId>, StoreError> {
    let limit = context.query.limit;
    let memories: HashMap<ChunkId, MemoryId> = passages.iter().map(|passage| (passage.chunk, passage.memory)).collect();
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
