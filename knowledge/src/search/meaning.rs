//! The leg of meaning: the vector of a query, and the chunks that are nearest to it.

use std::sync::Arc;

use store::StoreError;
use store::passage::{ChunkId, Wanted};

use super::embed::Embed;
use super::round::Round;

/// What the vector of a query says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Meaning {
    /// The vector, if the model made one.
    pub vector: Option<Arc<[f32]>>,
    /// The chunks that are nearest to it.
    pub chunks: Vec<ChunkId>,
    /// Why there is no vector, where there is a model.
    pub missing: Option<String>,
}

impl Meaning {
    fn missing(why: impl Into<String>) -> Self {
        Self { missing: Some(why.into()), ..Self::default() }
    }

    /// Embeds the query while the index catches up with recent commits, and searches for the nearest chunks.
    pub(super) async fn look_up<E: Embed>(round: &Round<'_, E>) -> Result<Self, StoreError> {
        let Some(model) = round.embedder.model() else { return Ok(Self::default()) };
        let embedding = tokio::time::timeout(
            round.settings.embedding_timeout,
            round.embedder.embed_query(round.query.text.clone()),
        );
        let catching_up = async {
            for shelf in round.shelves {
                round.index.catch_up(shelf, model).await?;
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
        let wanted = Wanted::any(round.settings.candidates(round.query.limit));
        let chunks = nearest(round, &vector, wanted).await?;
        Ok(Self { vector: Some(vector), chunks, missing: None })
    }
}

/// The chunks that are nearest to the vector of a query.
pub(super) async fn nearest<E: Embed>(
    round: &Round<'_, E>,
    vector: &Arc<[f32]>,
    wanted: Wanted,
) -> Result<Vec<ChunkId>, StoreError> {
    let Some(model) = round.embedder.model() else { return Ok(Vec::new()) };
    let spaces = round.query.spaces().map(Arc::from);
    let near = round.index.nearest(round.shelves, model, Arc::clone(vector), spaces, wanted).await?;
    Ok(near.into_iter().map(|(chunk, _)| chunk).collect())
}
