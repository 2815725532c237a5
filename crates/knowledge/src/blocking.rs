//! Runs CPU-bound work outside of the async threads.

use std::panic::resume_unwind;

/// Runs `work` on a thread for blocking work. A panic of the work continues in the caller, so that it is never mistaken for an empty
/// result.
pub(crate) async fn compute<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // Cancelled: the runtime is shutting down, and will drop this future.
            Err(_) => std::future::pending().await,
        },
    }
}
