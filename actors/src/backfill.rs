//! Vectors for passages that have none: they were added while the model did not answer, or another model made theirs.
//!
//! **If it crashes:** nothing is lost; the next pass finds what is left.

use domain::memory::embedded_text;
use knowledge::embed::Embedder;
use store::Store;

use crate::periodic::Pass;

/// Passages of one pass.
const PASSAGES_MAX: usize = 64;

/// One look.
#[derive(Debug, Clone)]
pub struct Backfill {
    /// The rows.
    pub store: Store,
    /// Who makes vectors.
    pub embedder: Embedder,
}

impl Pass for Backfill {
    type Memory = ();

    async fn run(&self, (): &mut ()) -> Result<bool, String> {
        let Some(model) = self.embedder.model() else { return Ok(false) };
        let missing = self.store.chunks_to_embed(model, PASSAGES_MAX).await.map_err(|error| error.to_string())?;
        if missing.is_empty() {
            return Ok(false);
        }
        let texts = missing.iter().map(|passage| embedded_text(&passage.title, &passage.content)).collect();
        let vectors = self.embedder.embed(texts).await.map_err(|error| error.to_string())?;
        let vectors: Vec<_> = missing.iter().map(|passage| passage.chunk).zip(vectors).collect();
        let kept = self.store.vectors_put(model, &vectors).await.map_err(|error| error.to_string())?;
        tracing::info!(passages = kept, model = %model, "passages got their vectors");
        Ok(vectors.len() == PASSAGES_MAX)
    }
}
