//! Durable work that outlives the request that asked for it.

use std::future::Future;

use crate::handle::Unavailable;

/// Runs `work` as a task of its own. A client that hangs up cancels the request's future, but never this.
pub async fn detached<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T, Unavailable> {
    tokio::spawn(work).await.map_err(|error| {
        tracing::error!(error = %error, "a task ended without a result");
        Unavailable::Crashed
    })
}
