//! Durable work that outlives the request that started it.

use std::future::Future;
use std::pin::Pin;

use tracing::Instrument as _;

use crate::causes::with_causes;
use crate::unavailable::Unavailable;

/// Runs `work` as a separate task, which a client that closes its connection does not cancel, in a child span of the
/// caller's. Fails with [`Unavailable::Crashed`] if `work` panics.
pub async fn detached<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T, Unavailable> {
    // Boxed, so that the spawning code is compiled once and not for each type of work.
    let work: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(work);
    tokio::spawn(work.instrument(tracing::info_span!("detached"))).await.map_err(|error| {
        tracing::error!(error = with_causes(&error), "a task ended without a result");
        Unavailable::Crashed
    })
}
