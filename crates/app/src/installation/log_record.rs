//! The records of the main database about the log.

use domain::ids::InstallationId;
use domain::log_part::LogPart;
use statistics::log::{Continuity, Log};
use store::Store;
use store::installation::{Installation, RememberedLog};

use super::error::OpenError;
use super::refusal::Mismatch;

/// The record of a part of the log in the main database.
#[derive(Debug, Clone)]
pub struct LogRecord {
    installation: Option<Installation>,
    log: Option<RememberedLog>,
    /// Number of leaves in the counted usage, which may exceed the size of the stored checkpoint.
    counted: u64,
}

impl LogRecord {
    /// Reads the records from the main database.
    #[boxed]
    pub async fn read(store: &Store, part: LogPart) -> Result<Self, OpenError> {
        let installation = store.installation().await?;
        let log = if part.is_first() {
            installation.as_ref().and_then(|installation| installation.log.clone())
        } else {
            store.log_remembered(part).await?
        };
        Ok(Self { installation, log, counted: store.usage_counted(part).await? })
    }

    /// The stored checkpoint of the log.
    pub fn log(&self) -> Option<&RememberedLog> {
        self.log.as_ref()
    }

    /// Whether a log with events or a key existed.
    pub fn know_a_log(&self) -> bool {
        self.log().is_some() || self.counted > 0
    }

    /// Minimum number of events of the log.
    pub fn events_min(&self) -> u64 {
        self.log().map_or(0, |log| log.size).max(self.counted)
    }

    /// Whether the log belongs to the same installation; `owner` was read from the log before the main
    /// database was read.
    pub(super) async fn own(
        &self,
        owner: Option<InstallationId>,
        log: &Log,
    ) -> Result<Result<(), Mismatch>, OpenError> {
        let of = |log| move |record: &Installation| Mismatch::OtherInstallation { main: record.id, log };
        Ok(match (&self.installation, owner) {
            (None, Some(_)) => Err(Mismatch::FactsWithoutId),
            (Some(record), Some(owner)) if record.id != owner => Err(of(owner)(record)),
            (Some(record), None) if self.log.is_some() => match log.installation().await? {
                // Another process has assigned the id since.
                Some(owner) if owner == record.id => Ok(()),
                Some(owner) => Err(of(owner)(record)),
                None => Err(Mismatch::LogWithoutId),
            },
            _ => Ok(()),
        })
    }

    /// Whether the log continues the stored checkpoint.
    pub(super) async fn are_continued_by(&self, log: &Log) -> Result<Result<(), Mismatch>, OpenError> {
        let Some(remembered) = self.log() else { return self.are_counted_by(log).await };
        let Some(checkpoint) = remembered.opened() else { return Ok(Err(Mismatch::Unreadable)) };
        match log.continues(&remembered.vkey, &checkpoint).await? {
            Continuity::Continues => self.are_counted_by(log).await,
            Continuity::OtherKey => Ok(Err(Mismatch::OtherKey)),
            Continuity::Smaller => {
                Ok(Err(Mismatch::Smaller { log: log.head().await?.size, remembered: self.events_min() }))
            }
            Continuity::Differs => Ok(Err(Mismatch::Differs { size: checkpoint.size })),
        }
    }

    async fn are_counted_by(&self, log: &Log) -> Result<Result<(), Mismatch>, OpenError> {
        let size = log.head().await?.size;
        let is_smaller = size < self.counted;
        Ok(if is_smaller { Err(Mismatch::Smaller { log: size, remembered: self.counted }) } else { Ok(()) })
    }
}
