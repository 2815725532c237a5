//! Deletes expired codes, tokens and sessions, registrations that ended long ago, and settled held events.
//!
//! **If it crashes:** the next pass removes it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use domain::Clock;
use domain::clock::delta;
use domain::live::Live;
use serde::{Deserialize, Serialize};
use store::Store;
use store::feed::ENTRIES_KEPT_MAX;
use store::janitor::PurgeSettings;
use supervision::periodic::{Next, Pass, PassError};

use crate::mail;

/// `[janitor]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct JanitorSettings {
    #[serde(with = "humantime_serde")]
    pub every: Duration,
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
    /// Retention by kind of record.
    pub settings: Live<PurgeSettings>,
    /// Retention of feed entries.
    pub feeds_kept: Live<Duration>,
    /// The folder of the mail transport `files`.
    pub outbox: PathBuf,
    /// Retention of mail files (`mail.files_kept`).
    pub mail_files_kept: Duration,
}

impl Janitor {
    /// Removes old mail files; returns their number. If the folder cannot be changed, the rest of the pass still runs.
    async fn remove_mail_files(&self) -> usize {
        let Some(cutoff) = self.clock.now().checked_sub_signed(delta(self.mail_files_kept)) else { return 0 };
        let outbox = self.outbox.clone();
        let settings = self.settings.get();
        let most = (settings.batch_rows as usize).saturating_mul(settings.batches_max as usize);
        let removed = tokio::task::spawn_blocking(move || mail::remove_files(&outbox, cutoff, most)).await;
        let removed = removed.unwrap_or_else(|error| Err(io::Error::other(error)));
        removed.unwrap_or_else(|error| {
            let folder = self.outbox.display();
            tracing::warn!(%folder, error = domain::reasons(&error), "old mails could not be removed from the outbox");
            0
        })
    }
}

impl Pass for Janitor {
    type Memory = ();

    async fn run(&self, (): &mut ()) -> Result<Next, PassError> {
        domain::failpoint!("janitor.pass");
        let (now, settings) = (self.clock.now(), **self.settings.get());
        let feeds_kept = **self.feeds_kept.get();
        let purged = self.store.purge(now, &settings).await?;
        let feed_entries = self.store.purge_feeds(now, feeds_kept, ENTRIES_KEPT_MAX, &settings).await?;
        let mail_files = self.remove_mail_files().await;
        let is_erased = self.store.purge_deleted(&settings).await?;
        tracing::debug!(?purged, feed_entries, mail_files, is_erased, "a round of cleaning up is done");
        Ok(Next::AfterPause)
    }
}
