//! Vectors for passages that have none: they were added while the model did not answer, or another model made theirs. And what
//! a database that compares vectors needs for that.
//!
//! **If it crashes:** nothing is lost; the next pass finds what is left.

use knowledge::backfill::{Step, step};
use knowledge::embed::Embedder;
use knowledge::index::Index;
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
    /// Who compares them.
    pub index: Index,
}

impl Pass for Backfill {
    type Memory = ();

    async fn run(&self, (): &mut ()) -> Result<bool, String> {
        let copying = self.index.keep_up(self.embedder.model()).await.map_err(|error| error.to_string())?;
        match step(&self.store, &self.embedder, PASSAGES_MAX).await.map_err(|error| error.to_string())? {
            Step::Embedded(passages) => {
                tracing::info!(passages, "passages got their vectors");
                Ok(true)
            }
            Step::Done => Ok(copying),
        }
    }
}
