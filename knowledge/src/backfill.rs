//! Vectors for chunks that have none of the model in use: they were kept while it was away, or it has replaced another
//! (`docs/decisions/0039-bundled-embedding-model.md`).

use store::{Store, StoreError};

use crate::search::Embed;

/// The text that stands for a chunk when its vector is made: a passage says more under its title.
pub fn text_of(title: &str, content: &str) -> String {
    if title.is_empty() || content.starts_with(title) { content.to_owned() } else { format!("{title}\n{content}") }
}

/// What came of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// So many chunks have their vector now, and others may wait.
    Embedded(usize),
    /// Nothing waits.
    Done,
}

/// Why a step failed; the next may not.
#[derive(Debug, thiserror::Error)]
pub enum BackfillError {
    /// The store did not answer.
    #[error("cannot read or keep vectors")]
    Store(#[from] StoreError),
    /// The model did not answer, or gave something else than was asked for.
    #[error("cannot embed: {0}")]
    Embed(String),
}

/// Embeds up to `chunks_max` chunks that wait. Two processes that do it at once do some of it twice, and nothing wrong.
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
