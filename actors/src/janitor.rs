//! Deletes records that have no use: expired codes, tokens and sessions, registrations that ended long ago, settled held events.
//!
//! **If it crashes:** the next pass removes it.

use std::time::Duration;

use domain::Clock;
use serde::{Deserialize, Serialize};
use store::Store;
use store::feed::ENTRIES_KEPT_MAX;
use store::janitor::PurgeSettings;
use supervision::periodic::{Next, Pass, PassError};

/// `[janitor]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JanitorSettings {
    /// Pause between two rounds.
    #[serde(with = "humantime_serde")]
    pub every: Duration,
    /// Retention by kind of record.
    pub purge: PurgeSettings,
}

impl Default for JanitorSettings {
    fn default() -> Self {
        Self { every: Duration::from_mins(10), purge: PurgeSettings::default() }
    }
}

/// The pass that deletes expired records.
#[derive(Debug, Clone)]
pub struct Janitor {
    /// The main database.
    pub store: Store,
    /// The clock of the server.
    pub clock: Clock,
    /// How long things are kept.
    pub settings: PurgeSettings,
    /// How long entries of feeds are kept.
    pub feeds_kept: Duration,
}

impl Pass for Janitor {
    type Memory = ();

    async fn run(&self, (): &mut ()) -> Result<Next, PassError> {
        domain::failpoint!("janitor.pass");
        let now = self.clock.now();
        let purged = self.store.purge(now, &self.settings).await?;
        let feed_entries = self.store.purge_feeds(now, self.feeds_kept, ENTRIES_KEPT_MAX, &self.settings).await?;
        tracing::debug!(?purged, feed_entries, "a round of cleaning up is done");
        Ok(Next::AfterPause)
    }
}
