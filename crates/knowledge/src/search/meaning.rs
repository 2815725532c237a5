//! The semantic search: the vector of the query, and the nearest chunks.

use std::sync::Arc;

use store::StoreError;
use store::chunk::{ChunkId, ChunkLimits};

use super::context::SearchContext;
use super::embed::Embed;
use super::settings::candidates;

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SemanticSearch {
    /// Vector of the query, if it was embedded.
    pub vector: Option<Arc<[f32]>>,
    /// Chunks nearest to the vector.
    pub chunks: Vec<ChunkId>,
    /// Why the query was not embedded, although there is a model.
    pub missing: Option<String>,
}

impl SemanticSearch {
    fn missing(why: impl Into<String>) -> Self {
        Self { missing: Some(why.into()), ..Self::default() }
    }

    /// Embeds the query while the index catches up with recent commits, and searches for the nearest chunks.
    pub(super) async fn look_up<E: Embed>(context: &SearchContext<'_, E>) -> Result<Self, StoreError> {
        let Some(model) = context.embedder.model() else { return Ok(Self::default()) };
        let embedding = tokio::time::timeout(
            context.settings.embedding_timeout,
            context.embedder.embed_query(context.query.text.clone()),
        );
        let catching_up = async {
            for account_index in context.account_indexes {
                context.index.catch_up(account_index, model).await?;
            }
            Ok::<(), StoreError>(())
        };
        let (embedded, caught_up) = tokio::join!(embedding, catching_up);
        caught_up?;
        let vector: Arc<[f32]> = match embedded {
            Ok(Ok(vector)) if vector.len() == usize::from(model.dimensions) => vector.into(),
            Ok(Ok(_)) => return Ok(Self::missing("the model gave no vector of its own length")),
            Ok(Err(error)) => return Ok(Self::missing(error.to_string())),
            Err(_) => return Ok(Self::missing("the model took too long")),
        };
        let wanted = ChunkLimits::any(candidates(context.query.limit));
        let chunks = nearest(context, &vector, wanted).await?;
        Ok(Self { vector: Some(vector), chunks, missing: None })
    }
}

/// The chunks that are nearest to the vector of a query.
pub(super) async fn nearest<E: Embed>(
    context: &SearchContext<'_, E>,
    vector: &Arc<[f32]>,
    wanted: ChunkLimits,
) -> Result<Vec<ChunkId>, StoreError> {
    let Some(model) = context.embedder.model() else { return Ok(Vec::new()) };
    let spaces = context.query.spaces().map(Arc::from);
    let near = context
        .index
        .nearest(context.store, context.account_indexes, model, Arc::clone(vector), spaces, wanted)
        .await?;
    Ok(near.into_iter().map(|(chunk, _)| chunk).collect())
}
