//! Computes missing embeddings: for chunks added while the model did not respond, and for chunks with an embedding of
//! another model. Also maintains the pgvector index.
//!
//! **If it crashes:** the next pass finds the remaining chunks.

use domain::service_pause::ServicePart;
use knowledge::backfill::{Step, step};
use knowledge::embed::Embedder;
use knowledge::index::Index;
use knowledge::index::database::Upkeep;
use store::Store;
use supervision::periodic::{Next, Pass, PassError};
use tokio::task::JoinHandle;

use crate::service_pause::ServicePauses;

/// Chunks of one pass.
const CHUNKS_MAX: usize = 64;

/// The pass that looks for chunks without an embedding.
#[derive(Debug, Clone)]
pub struct Backfill {
    /// The database of chunks.
    pub store: Store,
    /// Computes embeddings.
    pub embedder: Embedder,
    /// The index that the embeddings are added to.
    pub index: Index,
    /// Parts of the service that an operator has paused.
    pub pauses: ServicePauses,
}

impl Pass for Backfill {
    /// The task that builds the index of a large account; it may outlast a pass.
    type Memory = Option<JoinHandle<()>>;

    async fn run(&self, making: &mut Self::Memory) -> Result<Next, PassError> {
        if self.pauses.is_paused(ServicePart::Backfill) {
            return Ok(Next::AfterPause);
        }
        let upkeep = self.index.keep_up(self.embedder.model()).await?;
        if let (Upkeep::GraphMissing(account_index), Some(model)) = (upkeep, self.embedder.model())
            && making.as_ref().is_none_or(JoinHandle::is_finished)
        {
            let (index, model) = (self.index.clone(), model.clone());
            *making = Some(tokio::spawn(async move {
                if let Err(error) = index.make_graph(account_index, &model).await {
                    tracing::warn!(
                        account_index,
                        error = domain::reasons(&error),
                        "the index of a large account was not made"
                    );
                }
            }));
        }
        match step(&self.store, &self.embedder, CHUNKS_MAX).await? {
            Step::Embedded(chunks) => {
                tracing::info!(chunks, "chunks got their vectors");
                Ok(Next::AtOnce)
            }
            Step::Done => Ok(Next::at_once_if(upkeep == Upkeep::Copying)),
        }
    }
}
