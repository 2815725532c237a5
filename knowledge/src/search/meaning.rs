//! The leg of meaning: the vector of a query, and the chunks that are nearest to it.

use std::sync::Arc;

use store::StoreError;
use store::passage::{AccountStatistics, ChunkId, Wanted};

use super::{Embed, Search, SearchQuery};

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
}

impl<E: Embed> Search<E> {
    /// Asks the model, and meanwhile catches up with what was committed.
    pub(super) async fn by_meaning(
        &self,
        shelves: &[AccountStatistics],
        query: &SearchQuery,
    ) -> Result<Meaning, StoreError> {
        let Some(model) = self.embedder.model() else { return Ok(Meaning::default()) };
        let embedding =
            tokio::time::timeout(self.settings.embedding_timeout, self.embedder.embed_query(query.text.clone()));
        let catching_up = async {
            for shelf in shelves {
                self.index.catch_up(shelf, model).await?;
            }
            Ok::<(), StoreError>(())
        };
        let (embedded, caught_up) = tokio::join!(embedding, catching_up);
        caught_up?;
        let vector: Arc<[f32]> = match embedded {
            Ok(Ok(vector)) if vector.len() == usize::from(model.dimensions) => vector.into(),
            Ok(Ok(_)) => return Ok(Meaning::missing("the model gave no vector of its own length")),
            Ok(Err(error)) => return Ok(Meaning::missing(error.to_string())),
            Err(_) => return Ok(Meaning::missing("the model took too long")),
        };
        let wanted = Wanted::any(self.settings.candidates(query.limit));
        let chunks = self.nearest(shelves, &vector, wanted, query).await?;
        Ok(Meaning { vector: Some(vector), chunks, missing: None })
    }

    /// The chunks that are nearest to the vector of a query.
    pub(super) async fn nearest(
        &self,
        shelves: &[AccountStatistics],
        vector: &Arc<[f32]>,
        wanted: Wanted,
        query: &SearchQuery,
    ) -> Result<Vec<ChunkId>, StoreError> {
        let Some(model) = self.embedder.model() else { return Ok(Vec::new()) };
        let spaces = query.spaces().map(Arc::from);
        let near = self.index.nearest(shelves, model, Arc::clone(vector), spaces, wanted).await?;
        Ok(near.into_iter().map(|(chunk, _)| chunk).collect())
    }
}
