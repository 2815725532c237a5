//! Embeds chunks that have no vector of the current model: they were stored while the model was unavailable, or the
//! model was replaced (`docs/decisions/0023-vectors.md`).

use store::{Store, StoreError};

use crate::search::Embed;

/// The text to embed for a chunk: its content under the title, which adds context.
pub fn text_of(title: &str, content: &str) -> String {
    if title.is_empty() || content.starts_with(title) { content.to_owned() } else { format!("{title}\n{content}") }
}

/// Result of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// This number of chunks was embedded; more may be left.
    Embedded(usize),
    /// Every chunk has a vector.
    Done,
}

/// Why a step failed. A later step may succeed.
#[derive(Debug, thiserror::Error)]
pub enum BackfillError {
    /// The store failed.
    #[error("cannot read or store vectors")]
    Store(#[from] StoreError),
    /// The model failed, or returned vectors of the wrong number or length.
    #[error("cannot embed: {0}")]
    Embed(String),
}

/// Embeds up to `chunks_max` chunks. If two processes run at the same time, some chunks are embedded twice, with the same result.
pub async fn step<E: Embed>(store: &Store, embedder: &E, chunks_max: usize) -> Result<Step, BackfillError> {
    let Some(model) = embedder.model() else { return Ok(Step::Done) };
    let waiting = store.chunks_to_embed(model, chunks_max).await?;
    if waiting.is_empty() {
        return Ok(Step::Done);
    }
    let texts = waiting.iter().map(|waiting| text_of(&waiting.title, &waiting.content)).collect();
    let vectors = embedder.embed(texts).await.map_err(|error| BackfillError::Embed(error.to_string()))?;
    let fits =
        vectors.len() == waiting.len() && vectors.iter().all(|vector| vector.len() == usize::from(model.dimensions));
    if !fits {
        return Err(BackfillError::Embed("the model gave other vectors than were asked for".into()));
    }
    let vectors: Vec<_> = waiting.iter().map(|waiting| waiting.chunk).zip(vectors).collect();
    store.vectors_put(model, &vectors).await?;
    Ok(Step::Embedded(vectors.len()))
}
