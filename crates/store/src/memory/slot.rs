//! The connections to a separate database of the memory, which may be opened later.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::MutexGuard;
use tokio::time::{Instant, timeout};

use crate::error::StoreError;
use crate::pool::Pool;
use crate::replica::Replica;

/// Time for which the result of a probe is used.
const PROBED_EVERY: Duration = Duration::from_secs(1);
/// Maximum duration of a probe.
const PROBE_MAX: Duration = Duration::from_secs(2);

/// The separate database of the memory, once it is open. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryDatabase(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    open: OnceLock<OpenMemory>,
    /// Why it is not open.
    refusal: Mutex<Option<String>>,
    /// Held by the caller that opens it.
    opening: tokio::sync::Mutex<()>,
    /// The time of the last probe. Held during a probe.
    probed_at: tokio::sync::Mutex<Option<Instant>>,
    /// Whether the database took the write of the last probe.
    takes_writes: AtomicBool,
}

#[derive(Debug)]
pub(crate) struct OpenMemory {
    pub(crate) pool: Pool,
    /// Answers searches, if one is configured.
    pub(crate) replica: Option<Replica>,
}

impl MemoryDatabase {
    /// The connections.
    pub(crate) fn get(&self) -> Option<&OpenMemory> {
        self.0.open.get()
    }

    /// Sets the connections; the first ones stay.
    pub(crate) fn fill(&self, open: OpenMemory) {
        // Only one pass opens the database.
        let _ = self.0.open.set(open);
    }

    /// Records why the database is not open.
    pub(crate) fn refuse(&self, reason: String) {
        *self.0.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }

    /// The error of a statement while the database is not open.
    pub(crate) fn away(&self) -> sqlx::Error {
        let refusal = self.0.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        let reason = refusal.as_deref().unwrap_or("it was not opened yet");
        let error = format!("the database of the memory (knowledge.database.url) is away: {reason}");
        sqlx::Error::Io(io::Error::new(io::ErrorKind::NotConnected, error))
    }

    /// The turn of the caller to open the database; `None` while another one does.
    pub(crate) fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        self.0.opening.try_lock().ok()
    }

    /// Whether the database took the write of the last probe, which is at most a second old. Of concurrent callers one runs `probe`.
    pub(crate) async fn probed(&self, probe: impl Future<Output = Result<(), StoreError>>) -> bool {
        let took = self.0.takes_writes.load(Ordering::Acquire);
        let Ok(mut probed_at) = self.0.probed_at.try_lock() else { return took };
        if probed_at.is_some_and(|at| at.elapsed() < PROBED_EVERY) {
            return took;
        }
        let reason = match timeout(PROBE_MAX, probe).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(domain::reasons(&error)),
            Err(_) => Some(format!("no answer within {PROBE_MAX:?}")),
        };
        match &reason {
            None if !took => tracing::info!("the database of the memory takes writes: batches go on"),
            Some(reason) if took || probed_at.is_none() => {
                tracing::warn!(reason, "the database of the memory takes no writes: batches wait");
            }
            _ => {}
        }
        self.0.takes_writes.store(reason.is_none(), Ordering::Release);
        *probed_at = Some(Instant::now());
        reason.is_none()
    }
}
