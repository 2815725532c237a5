//! The records of the main database about the log.

use domain::ids::InstallationId;
use statistics::log::{Continuity, Log};
use store::Store;
use store::installation::{Installation, RememberedLog};

use super::error::OpenError;
use super::refusal::Mismatch;
use async_recursion::async_recursion as boxed;

/// What the main database stores about the log.
#[derive(Debug, Clone)]
pub struct LogRecord {
    installation: Option<Installation>,
    /// Leaves whose usage is counted, which may be more than those of the remembered checkpoint.
    counted: u64,
}

impl LogRecord {
    /// Reads them from the main database.
    #[boxed]
    pub async fn read(store: &Store) -> Result<Self, OpenError> {
        Ok(Self { installation: store.installation().await?, counted: store.usage_counted().await? })
    }

    /// The remembered checkpoint of the log.
    pub fn log(&self) -> Option<&RememberedLog> {
        self.installation.as_ref()?.log.as_ref()
    }

    /// Whether there was a log with events or a key.
    pub fn know_a_log(&self) -> bool {
        self.log().is_some() || self.counted > 0
    }

    /// The events that the log must have.
    pub fn events_min(&self) -> u64 {
        self.log().map_or(0, |log| log.size).max(self.counted)
    }

    /// Whether the log is of the same installation; `owner` was read from it before the main database was.
    pub(super) async fn own(
        &self,
        owner: Option<InstallationId>,
        log: &Log,
    ) -> Result<Result<(), Mismatch>, OpenError> {
        let of = |log| move |record: &Installation| Mismatch::OtherInstallation { main: record.id, log };
        Ok(match (&self.installation, owner) {
            (None, Some(_)) => Err(Mismatch::FactsWithoutId),
            (Some(record), Some(owner)) if record.id != owner => Err(of(owner)(record)),
            (Some(record), None) if record.log.is_some() => match log.installation().await? {
                // Another process has given it an id since.
                Some(owner) if owner == record.id => Ok(()),
                Some(owner) => Err(of(owner)(record)),
                None => Err(Mismatch::LogWithoutId),
            },
            _ => Ok(()),
        })
    }

    /// Whether the log continues the remembered checkpoint.
    pub(super) async fn are_continued_by(&self, log: &Log) -> Result<Result<(), Mismatch>, OpenError> {
        let Some(remembered) = self.log() else { return self.are_counted_by(log).await };
        let Some(seen) = remembered.opened() else { return Ok(Err(Mismatch::Unreadable)) };
        match log.continues(&remembered.vkey, &seen).await? {
            Continuity::Continues => self.are_counted_by(log).await,
            Continuity::OtherKey => Ok(Err(Mismatch::OtherKey)),
            Continuity::Smaller => {
                Ok(Err(Mismatch::Smaller { log: log.head().await?.size, remembered: self.events_min() }))
            }
            Continuity::Differs => Ok(Err(Mismatch::Differs { size: seen.size })),
        }
    }

    async fn are_counted_by(&self, log: &Log) -> Result<Result<(), Mismatch>, OpenError> {
        let size = log.head().await?.size;
        let is_smaller = size < self.counted;
        Ok(if is_smaller { Err(Mismatch::Smaller { log: size, remembered: self.counted }) } else { Ok(()) })
    }
}
