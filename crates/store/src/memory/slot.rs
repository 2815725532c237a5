//! The connections to a separate database of the memory, which may be opened later.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::pool::{DatabaseSettings, Pool};
use crate::replica::Replica;

/// Time for which the result of a probe is used.
const PROBED_EVERY: Duration = Duration::from_secs(1);

/// The separate database of the memory, once it is open. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryDatabase(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    open: OnceLock<OpenMemory>,
    /// Why it is not open.
    refusal: Mutex<Option<String>>,
    /// The last probe: its time, and whether the database took a write.
    probed: tokio::sync::Mutex<Option<(Instant, bool)>>,
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

    /// Whether the database took the write of `probe`. Concurrent callers share a probe, and later ones use its result for a second.
    pub(crate) async fn probed(&self, probe: impl Future<Output = bool>) -> bool {
        let mut probed = self.0.probed.lock().await;
        if let Some((at, outcome)) = *probed
            && at.elapsed() < PROBED_EVERY
        {
            return outcome;
        }
        let outcome = probe.await;
        *probed = Some((Instant::now(), outcome));
        outcome
    }
}

impl OpenMemory {
    pub(crate) fn retune(&self, settings: &DatabaseSettings) {
        self.pool.retune(settings);
        if let Some(replica) = &self.replica {
            replica.retune(settings);
        }
    }

    pub(crate) async fn close(&self) {
        if let Some(replica) = &self.replica {
            replica.close().await;
        }
        self.pool.close().await;
    }
}
