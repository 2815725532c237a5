//! Notes that computers show themselves, and writes it down now and then.
//!
//! The read that authenticates a computer returns when it was last seen. Only if that is a minute ago is the computer noted, and about
//! once a second the noted computers are written in one transaction. The write asks again whether a minute has passed, so a computer is written
//! once a minute at most, through however many nodes it speaks.
//!
//! **If it crashes:** nothing is lost but the process's last second, and the computer's next request is noted again.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use chrono::TimeDelta;
use dashmap::DashMap;
use domain::Timestamp;
use domain::ids::MachineUuid;
use store::Store;
use supervision::periodic::{Next, Pass, PassError};

/// How seldom a computer is written.
const SPARING: TimeDelta = TimeDelta::minutes(1);

/// Computers noted between two writes; more are noted at their next request.
const NOTED_MAX: usize = 100_000;

/// Who showed themselves since the last write. Clones are the same.
#[derive(Debug, Clone)]
pub struct Presence {
    store: Store,
    noted: Arc<DashMap<MachineUuid, Timestamp>>,
}

impl Presence {
    /// An empty record, which is written to `store`.
    pub fn new(store: Store) -> Self {
        Self { store, noted: Arc::default() }
    }

    /// A computer that was `last_seen` then made a request now.
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
        let noted: Vec<(MachineUuid, Timestamp)> = self.noted.iter().map(|seen| (*seen.key(), *seen.value())).collect();
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
