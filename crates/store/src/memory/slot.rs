//! The connections to a separate database of the memory, which may be opened later.

use std::sync::{Arc, OnceLock};

use crate::pool::{DatabaseSettings, Pool};
use crate::replica::Replica;

/// The separate database of the memory, once it is open. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryDatabase(Arc<OnceLock<OpenMemory>>);

#[derive(Debug)]
pub(crate) struct OpenMemory {
    pub(crate) pool: Pool,
    /// Answers searches, if one is configured.
    pub(crate) replica: Option<Replica>,
}

impl MemoryDatabase {
    pub(crate) fn get(&self) -> Option<&OpenMemory> {
        self.0.get()
    }

    /// Sets the connections; the first ones stay.
    pub(crate) fn fill(&self, open: OpenMemory) {
        // Only one pass opens the database.
        let _ = self.0.set(open);
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
