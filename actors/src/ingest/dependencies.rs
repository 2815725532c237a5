//! The dependencies of the actors of batches.

use std::sync::atomic::AtomicBool;

use domain::live::Live;
use domain::{Clock, Rng};
use extract::fair::FairPlaces;
use knowledge::Pipeline;
use store::Store;
use store::memory::MemoryQuota;

use super::settings::BatchSettings;
use crate::service_pause::ServicePauses;

/// The dependencies of every batch actor.
#[derive(Debug)]
pub struct Dependencies {
    /// The database of batches and memories.
    pub store: Store,
    /// The clock of the server.
    pub clock: Clock,
    /// The random generator of the server.
    pub rng: Rng,
    /// Fetches, extracts, filters and embeds items.
    pub pipeline: Pipeline,
    /// `[knowledge.batch]`
    pub settings: Live<BatchSettings>,
    /// Places of the lines of imports that are prepared.
    pub lines: FairPlaces,
    /// Imports of one account that may run at once.
    pub imports_running_max: u32,
    /// How much an account may keep.
    pub quota: Live<MemoryQuota>,
    /// Prefix of the URLs of notes, without a slash at the end.
    pub rag_url: String,
    /// Name of this process as a holder of leases.
    pub runner: String,
    /// Parts of the service that an operator has paused.
    pub pauses: ServicePauses,
    /// Set when the process stops: the actors take no more leases.
    pub leaves: AtomicBool,
}
