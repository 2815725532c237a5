//! Records when computers were last seen.
//!
//! The query that authenticates a computer returns when it was last seen. If that is a minute ago or longer, the computer is noted, and
//! about once a second one transaction writes the noted computers. The write checks the minute again, so a computer is written at most once
//! a minute, even if it sends to several nodes.
//!
//! **If it crashes:** the last second is lost, and the computer's next request notes it again.

use std::sync::Arc;

use chrono::TimeDelta;
use dashmap::DashMap;
use domain::Timestamp;
use domain::ids::MachineUuid;
use store::Store;
use supervision::periodic::{Next, Pass, PassError};

/// Minimum time between two writes of a computer.
const SPARING: TimeDelta = TimeDelta::minutes(1);

/// Computers noted between two writes; more are noted at their next request.
const NOTED_MAX: usize = 100_000;

/// The computers seen since the last write. Clones share them.
#[derive(Debug, Clone)]
pub struct Presence {
    store: Store,
    noted: Arc<DashMap<MachineUuid, Timestamp>>,
}

impl Presence {
    /// An empty set of computers, written to `store`.
    pub fn new(store: Store) -> Self {
        Self { store, noted: Arc::default() }
    }

    /// Notes a request of a computer that was `last_seen` earlier.
    pub fn seen(&self, machine: MachineUuid, last_seen: Timestamp, now: Timestamp) {
        if now - last_seen >= SPARING && !self.noted.contains_key(&machine) && self.noted.len() < NOTED_MAX {
            self.noted.insert(machine, now);
        }
    }

    /// Writes the noted computers.
    #[boxed]
    pub async fn settle(&self) -> Result<(), PassError> {
        if self.noted.is_empty() {
            return Ok(());
        }
        let noted: Vec<(MachineUuid, Timestamp)> =
            self.noted.iter().map(|entry| (*entry.key(), *entry.value())).collect();
        self.store.machines_touch(&noted, SPARING).await?;
        for (machine, _) in &noted {
            self.noted.remove(machine);
        }
        Ok(())
    }
}

/// The pass that writes the noted computers.
#[derive(Debug, Clone)]
pub struct PresencePass(pub Presence);

impl Pass for PresencePass {
    type Memory = ();

    async fn run(&self, (): &mut ()) -> Result<Next, PassError> {
        domain::failpoint!("presence.pass");
        self.0.settle().await.map(|()| Next::AfterPause)
    }
}
