//! Vectors for passages that have none: they were added while the model did not answer, or another model made theirs.
//!
//! **If it crashes:** nothing is lost; the next pass finds what is left.

use knowledge::backfill::{Step, step};
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
        match step(&self.store, &self.embedder, PASSAGES_MAX).await.map_err(|error| error.to_string())? {
            Step::Embedded(passages) => {
                tracing::info!(passages, "passages got their vectors");
                Ok(true)
            }
            Step::Done => Ok(false),
        }
    }
}
