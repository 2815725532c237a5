//! The state of the sequencer's lease in the process that has it (PostgreSQL).

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

/// The last lease of this process.
#[derive(Debug, Default)]
pub(super) struct SequencerLease(Mutex<Option<Held>>);

#[derive(Debug, Clone, Copy)]
struct Held {
    fence: i64,
    until: Instant,
}

impl SequencerLease {
    /// Records a lease that was acquired or renewed. The fence increases if another process had the lease in between.
    pub(super) fn taken(&self, fence: i64, until: Instant) {
        let held = Held { fence, until };
        let previous = self.0.lock().unwrap_or_else(PoisonError::into_inner).replace(held);
        if previous.is_none_or(|previous| previous.fence != fence) {
            tracing::info!(fence, "this node has the lease of the sequencer and signs the log");
        }
    }

    /// Records that another process has the lease.
    pub(super) fn lost(&self) {
        if let Some(Held { fence, .. }) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            tracing::info!(fence, "another node has taken the lease of the sequencer");
        }
    }

    pub(super) fn is_held(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|held| Instant::now() < held.until)
    }
}
