//! Why the main database and the log are refused, and the remedies.

use domain::ids::InstallationId;
use domain::log_part::LogPart;

use super::places::places;
use crate::config::Settings;

/// Why the main database and the log do not belong together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The log exists, but the main database does not.
    #[error(
        "there is an event log without the main database that belongs to it: accounts, computers and held events are missing"
    )]
    FactsMissing,
    /// The main database is new, but the log is not.
    #[error("the event log belongs to an installation, and the main database to none: it is new")]
    FactsWithoutId,
    /// The main database refers to a log that does not exist.
    #[error("the main database remembers an event log of at least {remembered} events, and there is none")]
    LogMissing {
        /// Minimum number of events that it had.
        remembered: u64,
    },
    /// The main database refers to a log, but this log belongs to no installation.
    #[error("the main database remembers an event log, and the one that is there belongs to no installation")]
    LogWithoutId,
    /// The main database and the log belong to different installations.
    #[error("the main database is of installation {main}, and the event log of installation {log}")]
    OtherInstallation {
        /// Installation of the main database.
        main: InstallationId,
        /// Installation of the log.
        log: InstallationId,
    },
    /// The log was rolled back.
    #[error(
        "the event log has {log} signed events, and the main database remembers {remembered}: the log was rolled back, or is an older copy"
    )]
    Smaller {
        /// Events in the signed tree.
        log: u64,
        /// Number of events according to the main database.
        remembered: u64,
    },
    /// The log contains other events.
    #[error(
        "the first {size} events of the log are not those that it had signed: it is another history of the same log"
    )]
    Differs {
        /// Leaves of the stored checkpoint.
        size: u64,
    },
    /// The log has another key.
    #[error("the event log is signed by another key than the one that the main database remembers")]
    OtherKey,
    /// The stored checkpoint cannot be parsed.
    #[error("the checkpoint that the main database remembers cannot be read")]
    Unreadable,
}

/// A refused start, with the remedies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{mismatch}\n  main database  {main}\n  log            {log}\n  \
     Check that these are the right places and that they are mounted. If so, there are two remedies:\n  \
     - restore both databases from one backup: `attache backup restore` (PostgreSQL: pg_restore)\n  \
     - `attache serve --new-log` begins a new epoch of the log, whose checkpoints have a new origin. {loss}"
)]
pub struct StartRefusal {
    mismatch: Mismatch,
    main: String,
    log: String,
    loss: &'static str,
}

impl StartRefusal {
    /// The refusal for the configured databases.
    pub fn of(settings: &Settings, mismatch: Mismatch) -> Self {
        let (main, log) = places(settings);
        let loss = mismatch.loss();
        Self { mismatch, main, log, loss }
    }
}

impl Mismatch {
    /// The data that the new epoch lacks.
    fn loss(&self) -> &'static str {
        match self {
            Self::FactsMissing | Self::FactsWithoutId | Self::OtherInstallation { .. } | Self::LogWithoutId => {
                "The existing log is renamed, and the new one is empty"
            }
            Self::LogMissing { .. } => "The new log is empty: proofs of earlier events are no longer available",
            Self::Smaller { .. } | Self::Differs { .. } | Self::OtherKey | Self::Unreadable => {
                "It keeps the events of this log; proofs of events that only the lost log had are no longer available"
            }
        }
    }

    /// Both remedies in one line.
    pub fn advice(part: LogPart) -> String {
        if part.is_first() {
            return "restore both databases from one backup, or run `attache serve --new-log`, which begins a new epoch of the log"
                .to_owned();
        }
        let command = epoch_command(part);
        format!(
            "correct its url in log.part, or restore its database. If its events are lost, {command} begins a new epoch; with --lost in an empty \
             database, while no node runs"
        )
    }
}

/// The command for a new epoch of a part of the log while nodes run.
pub fn epoch_command(part: LogPart) -> String {
    let option = if part.is_first() { String::new() } else { format!(" --part {part}") };
    format!("`attache admin log epoch{option} --reason …`")
}
