//! The trace of the request that a task serves; requests to an external statistics service continue it.

use std::future::Future;

use domain::trace::TraceContext;

tokio::task_local! {
    static CURRENT: TraceContext;
}

/// Runs `work` as part of this trace. Tasks that `work` spawns are not part of it.
pub async fn within<F: Future>(trace: TraceContext, work: F) -> F::Output {
    CURRENT.scope(trace, work).await
}

/// The trace of this task; `None` outside of [`within`].
pub fn current() -> Option<TraceContext> {
    CURRENT.try_with(|trace| *trace).ok()
}
