//! Opens the separate database of the memory (`docs/decisions/0049-memory-database.md`).
//!
//! A server that is away stops no start: the database is opened later ([`MemoryKeeper`]), and until then requests about memories get 503. A
//! database that does not belong to the main database is refused.

use std::time::Duration;

use domain::{Clock, Rng};
use knowledge::embed::Embedder;
use knowledge::search::Search;
use store::memory::LookAfter;
use store::memory::database::{MemoryOpenError, MemoryRefusal};
use store::{DatabaseSettings, Store};
use supervision::periodic::{Next, Pass, PassError};
use tokio::time::Instant;

use super::error::OpenError;
use super::parts::node_of_other_version;
use crate::config::Settings;

/// Pause after all accounts and spaces with memories were looked at. Until then each pass looks at one page.
const SWEEP_EVERY: Duration = Duration::from_mins(10);

/// Opens the separate database of the memory after its server was away, and moves memories out of spaces that do not exist.
#[derive(Debug, Clone)]
pub struct MemoryKeeper {
    /// The main database, with the separate memory.
    pub(crate) store: Store,
    /// The connections to the memory.
    pub(crate) settings: DatabaseSettings,
    /// Its index is prepared when the database is opened.
    pub(crate) search: Search<Embedder>,
    pub(crate) clock: Clock,
    pub(crate) rng: Rng,
}

/// The settings of the connections to the separate database of the memory, if there is one.
pub fn memory_settings(settings: &Settings) -> Option<DatabaseSettings> {
    let memory = &settings.knowledge.database;
    let url = memory.url.clone()?;
    Some(DatabaseSettings { url: Some(url), replica_url: memory.replica_url.clone(), ..settings.database.clone() })
}

/// The main database with its memory. A server that is away is left for [`MemoryKeeper`].
#[boxed]
pub async fn with_memory(store: Store, settings: &Settings, clock: &Clock) -> Result<Store, OpenError> {
    let Some(memory) = memory_settings(settings) else {
        if store.is_memory_elsewhere().await? {
            return Err(OpenError::Memory(MemoryRefusal::NotConfigured));
        }
        return Ok(store);
    };
    let store = store.with_memory_apart();
    match open_memory(&store, &memory, clock).await {
        Err(error) if error.is_away() => tracing::warn!(
            error = domain::reasons(&error),
            "the database of the memory is away: requests about memories get 503 until it is opened"
        ),
        opened => opened?,
    }
    Ok(store)
}

/// Opens the separate database of the memory.
#[boxed]
async fn open_memory(store: &Store, memory: &DatabaseSettings, clock: &Clock) -> Result<(), OpenError> {
    if !store.is_memory_elsewhere().await?
        && let Some(node) = node_of_other_version(store, clock).await?
    {
        return Err(OpenError::MemoryBesideVersion { node: node.place(), version: node.traits.version });
    }
    store.memory_open(memory).await.map_err(|error| match error {
        MemoryOpenError::Store(error) => OpenError::MemoryDatabase(error),
        MemoryOpenError::Refused(refusal) => OpenError::Memory(refusal),
    })
}

/// The progress of [`MemoryKeeper`].
#[derive(Debug, Default)]
pub struct KeeperProgress {
    /// Whether the index of the memory is prepared.
    is_prepared: bool,
    /// Where the look continues.
    after: LookAfter,
    /// Memories of unknown accounts since its start.
    of_unknown: u64,
    /// The time of the next look.
    next_at: Option<Instant>,
}

impl Pass for MemoryKeeper {
    type Memory = KeeperProgress;

    async fn run(&self, progress: &mut KeeperProgress) -> Result<Next, PassError> {
        if !progress.is_prepared {
            // A migration may take longer than a pass.
            let keeper = self.clone();
            let opened = async move { open_memory(&keeper.store, &keeper.settings, &keeper.clock).await };
            supervision::detached(opened).await??;
            self.search.index().prepare().await?;
            progress.is_prepared = true;
        }
        if progress.next_at.is_some_and(|at| Instant::now() < at) {
            return Ok(Next::AfterPause);
        }
        let lost = self.store.memories_home(progress.after, &self.rng, self.clock.now()).await?;
        if lost.moved > 0 {
            let moved = lost.moved;
            tracing::info!(moved, "memories of deleted spaces were moved to the default spaces of their accounts");
        }
        progress.of_unknown += lost.of_unknown;
        progress.after = lost.next.unwrap_or_default();
        progress.next_at = lost.next.is_none().then(|| Instant::now() + SWEEP_EVERY);
        if lost.next.is_none() {
            let memories = std::mem::take(&mut progress.of_unknown);
            if memories > 0 {
                tracing::warn!(memories, "the memory has memories of accounts that the main database does not have");
            }
        }
        Ok(Next::AfterPause)
    }
}
