//! Removes what nobody can use any more: expired codes, tokens and sessions, long-dead registrations, settled held events.
//!
//! **If it crashes:** the next pass removes it.

use std::time::Duration;

use domain::Clock;
use serde::{Deserialize, Serialize};
use store::Store;
use store::janitor::PurgeSettings;

use crate::periodic::{Next, Pass, PassError};

/// `[janitor]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JanitorSettings {
    /// Pause between two rounds.
    #[serde(with = "humantime_serde")]
    pub every: Duration,
    /// What is kept how long.
    pub purge: PurgeSettings,
}

impl Default for JanitorSettings {
    fn default() -> Self {
        Self { every: Duration::from_mins(10), purge: PurgeSettings::default() }
    }
}

/// One round.
#[derive(Debug, Clone)]
pub struct Janitor {
    /// The rows.
    pub store: Store,
    /// Time.
    pub clock: Clock,
    /// How long things are kept.
    pub settings: PurgeSettings,
}

impl Pass for Janitor {
    type Memory = ();

    async fn run(&self, (): &mut ()) -> Result<Next, PassError> {
        domain::failpoint!("janitor.pass");
        let purged = self.store.purge(self.clock.now(), &self.settings).await?;
        tracing::debug!(?purged, "a round of cleaning up is done");
        Ok(Next::AfterPause)
    }
}
