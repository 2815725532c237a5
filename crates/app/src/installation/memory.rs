//! Opens the separate database of the memory (`docs/decisions/0049-memory-database.md`).
//!
//! A server that is away stops no start: the database is opened later ([`MemoryKeeper`]), and until then requests about memories get 503. A
//! database that does not belong to the main database is refused.

use std::time::Duration;

use domain::{Clock, Rng};
use knowledge::embed::Embedder;
use knowledge::search::Search;
use store::memory::database::{MemoryOpenError, MemoryRefusal};
use store::{DatabaseSettings, Store};
use supervision::periodic::{Next, Pass, PassError};
use tokio::time::Instant;

use super::error::OpenError;
use crate::config::Settings;

/// Pause between two searches for memories in spaces that were deleted while a memory was added.
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

/// The main database with its memory. A server that is away is left for a later call of [`open_memory`].
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
    if !store.is_memory_elsewhere().await? {
        all_nodes_know(store, clock).await?;
    }
    store.memory_open(memory).await.map_err(|error| match error {
        MemoryOpenError::Store(error) => OpenError::Store(error),
        MemoryOpenError::Refused(refusal) => OpenError::Memory(refusal),
    })
}

/// Refuses a new database while a node of another version runs, which would look for the memory in the main database.
async fn all_nodes_know(store: &Store, clock: &Clock) -> Result<(), OpenError> {
    let nodes = store.nodes(clock.now()).await?;
    match nodes.into_iter().find(|node| !node.is_silent() && node.traits.version != env!("CARGO_PKG_VERSION")) {
        None => Ok(()),
        Some(node) => {
            let place = node.place();
            Err(OpenError::MemoryBesideVersion { node: place, version: node.traits.version })
        }
    }
}

impl Pass for MemoryKeeper {
    /// The time of the next search for lost spaces.
    type Memory = Option<Instant>;

    async fn run(&self, sweep_at: &mut Option<Instant>) -> Result<Next, PassError> {
        if !self.store.is_memory_open() {
            open_memory(&self.store, &self.settings, &self.clock).await?;
            self.search.index().prepare().await?;
        }
        if sweep_at.is_none_or(|at| at <= Instant::now()) {
            let moved = self.store.memories_home(&self.rng, self.clock.now()).await?;
            if moved > 0 {
                tracing::info!(moved, "memories of deleted spaces were moved to the default spaces of their accounts");
            }
            *sweep_at = Some(Instant::now() + SWEEP_EVERY);
        }
        Ok(Next::AfterPause)
    }
}
