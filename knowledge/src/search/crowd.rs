//! Long documents, and those beside them.
//!
//! A leg proposes a few chunks for each document that is wanted. When few documents have nearly all of the best chunks, they fill it, and
//! the next document is not among the candidates, however well it answers. Such a leg is asked once more, for no more chunks of a
//! document than its share: then each leg has proposed as many documents as are wanted, or all that there are.

use std::collections::{HashMap, HashSet};

use domain::ids::MemoryId;
use store::StoreError;
use store::passage::{Chunk, ChunkId, Wanted};

use super::embed::Embed;
use super::lexical::Lexical;
use super::meaning::{Meaning, nearest};
use super::round::Round;

/// The candidates of both legs, each once.
pub(super) async fn passages<E: Embed>(
    round: &Round<'_, E>,
    lexical: &Lexical,
    meaning: &Meaning,
) -> Result<Vec<Chunk>, StoreError> {
    let mut candidates: Vec<ChunkId> = lexical.chunks.iter().chain(&meaning.chunks).copied().collect();
    candidates.sort_unstable();
    candidates.dedup();
    let mut passages = read(round, &candidates, meaning).await?;
    let mut others = beside(round, &passages, lexical, meaning).await?;
    others.sort_unstable();
    others.dedup();
    others.retain(|chunk| candidates.binary_search(chunk).is_err());
    if !others.is_empty() {
        passages.extend(read(round, &others, meaning).await?);
    }
    Ok(passages)
}

async fn read<E: Embed>(round: &Round<'_, E>, chunks: &[ChunkId], meaning: &Meaning) -> Result<Vec<Chunk>, StoreError> {
    let model = meaning.vector.as_ref().and_then(|_| round.embedder.model());
    round.store.passages(chunks, &round.query.scope, model).await
}

/// The candidates of crowded legs when they are queried again.
async fn beside<E: Embed>(
    round: &Round<'_, E>,
    passages: &[Chunk],
    lexical: &Lexical,
    meaning: &Meaning,
) -> Result<Vec<ChunkId>, StoreError> {
    let limit = round.query.limit;
    let memories: HashMap<ChunkId, MemoryId> = passages.iter().map(|passage| (passage.chunk, passage.memory)).collect();
    let crowded = |chunks: &[ChunkId]| {
        let documents: HashSet<&MemoryId> = chunks.iter().filter_map(|chunk| memories.get(chunk)).collect();
        documents.len() < limit
    };
    let by_words = async {
        if lexical.is_full() && crowded(&lexical.chunks) {
            return lexical.spread(round.store, round.query, round.settings).await;
        }
        Ok(Vec::new())
    };
    let by_meaning = async {
        let count = round.settings.candidates(limit);
        match &meaning.vector {
            Some(vector) if meaning.chunks.len() >= count && crowded(&meaning.chunks) => {
                nearest(round, vector, Wanted::spread(count, limit)).await
            }
            _ => Ok(Vec::new()),
        }
    };
    let (mut others, by_meaning) = tokio::try_join!(by_words, by_meaning)?;
    others.extend(by_meaning);
    Ok(others)
}
