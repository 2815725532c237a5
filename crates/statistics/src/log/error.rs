//! Why an operation of the log failed, and the conversion of database errors.

use std::sync::Arc;

use rusqlite::ErrorCode;
use store::StoreError;
use store::pool::refused_commit;

use super::memory::file::MemoryFault;
use crate::archive::ArchiveError;
use domain::checkpoint::InvalidLogName;
use domain::log_part::LogPart;
use proofs::merkle::TreeFault;

/// Why an operation of the log failed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The database could not be opened or migrated.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The facts name a part of the log that the configuration does not have.
    #[error("part {0} of the log is not configured: log.part has no such number")]
    UnknownPart(LogPart),
    /// The database of a part could not be opened yet.
    #[error("part {0} of the log is away: its database could not be opened")]
    PartAway(LogPart),
    /// A statement failed.
    #[error("cannot {operation}")]
    Sql {
        /// The operation that failed.
        operation: &'static str,
        /// The error of the driver.
        source: sqlx::Error,
    },
    /// A statement on the writer's connection failed.
    #[error("cannot {operation}")]
    Sqlite {
        /// The operation that failed.
        operation: &'static str,
        /// The error of the library.
        source: rusqlite::Error,
    },
    /// The writer's thread cannot be started.
    #[error("the thread of the log's writer cannot be started")]
    Thread(#[source] std::io::Error),
    /// The writer panicked over this group; no event of the group was answered.
    #[error("the log's writer panicked: {0}")]
    Crashed(String),
    /// Too many events wait for the writer; none of these was written.
    #[error("too many events wait for the log's writer")]
    Full,
    /// Too many events are outside the indexes; none of these was written.
    #[error("the indexes of the log cannot be written, and too many events are outside them")]
    Unindexed,
    /// The row of an event is missing, so no later event can be placed.
    #[error("row {0} of the log is missing, so no later event gets a place")]
    Gap(i64),
    /// The log is closed.
    #[error("the log is closed")]
    Closed,
    /// The commit of the event's group failed; all events of the group share the error.
    #[error(transparent)]
    Group(Arc<Self>),
    /// Events could not be added to their sessions.
    #[error("cannot add events to their sessions")]
    Sessions(#[source] Box<Self>),
    /// `log.origin` is not the name of a log.
    #[error(transparent)]
    Name(#[from] InvalidLogName),
    /// The log has another origin.
    #[error("the log was begun as {begun}, and log.origin is fixed from then on; it says {asked} now")]
    OtherOrigin {
        /// Origin of the existing log.
        begun: String,
        /// The name in the configuration.
        asked: String,
    },
    /// The sequence has a cache, so sessions of the database take several numbers at once.
    #[error(
        "the sequence {sequence} has CACHE {cache}, so the numbers of events do not grow with their chains; set it with ALTER SEQUENCE {sequence} CACHE 1"
    )]
    CachedSequence {
        /// Qualified name of the sequence.
        sequence: String,
        /// Numbers that a session takes at once.
        cache: i64,
    },
    /// The stored tree contradicts its events.
    #[error("the tree cannot be read")]
    Tree(#[from] TreeFault),
    /// The signed tree is not a prefix of the stored tree, so the stored tree is not signed.
    #[error(
        "the stored tree does not begin with the one that was signed: nothing is signed until an operator has looked"
    )]
    Inconsistent,
    /// The log does not continue a checkpoint that a node remembers or a witness has cosigned.
    #[error("{0}")]
    Halted(String),
    /// Too few witnesses have cosigned the newest checkpoint.
    #[error(
        "{have} witnesses have cosigned the newest checkpoint, fewer than log.witness_quorum = {quorum}: the next one is not signed before"
    )]
    Unwitnessed {
        /// Number of configured witnesses with a cosignature.
        have: usize,
        /// The required number.
        quorum: usize,
    },
    /// The database is a standby, which may lag behind its primary.
    #[error("the database server is in recovery (a standby): nothing is signed there")]
    Recovering,
    /// The node's file of the newest checkpoint cannot be used.
    #[error(transparent)]
    Memory(#[from] MemoryFault),
    /// The archive of the log does not have a body that it should have, or cannot be used.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A row has a value that this program does not write.
    #[error("a row of the log is corrupt: {0}")]
    Corrupt(&'static str),
}

impl LogError {
    /// Whether the database is unavailable, so that a retry of single items would fail too.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Store(error) => error.is_unavailable(),
            Self::Sql { source, .. } => !matches!(source, sqlx::Error::Database(error) if error.is_unique_violation()),
            Self::Sqlite { source, .. } => !is_of_one_row(source),
            Self::Group(error) => error.is_unavailable(),
            _ => true,
        }
    }

    /// Whether only the stored tree cannot grow, or only the tables of sessions. Appends are not affected.
    pub(super) fn is_beside_the_log(&self) -> bool {
        matches!(self, Self::Inconsistent | Self::Tree(_) | Self::Gap(_) | Self::Sessions(_))
    }

    /// Whether the error is a panic of the writer.
    pub fn is_crash(&self) -> bool {
        match self {
            Self::Crashed(_) => true,
            Self::Group(error) => error.is_crash(),
            _ => false,
        }
    }
}

/// Adds the name of the operation to an error of the driver.
pub(super) trait During<T> {
    fn during(self, operation: &'static str) -> Result<T, LogError>;
}

impl<T> During<T> for Result<T, sqlx::Error> {
    fn during(self, operation: &'static str) -> Result<T, LogError> {
        self.map_err(|source| LogError::Sql { operation, source })
    }
}

/// Adds the name of the operation to an error of the writer's connection.
pub(super) trait DuringSqlite<T> {
    fn during(self, operation: &'static str) -> Result<T, LogError>;
}

impl<T> DuringSqlite<T> for Result<T, rusqlite::Error> {
    fn during(self, operation: &'static str) -> Result<T, LogError> {
        self.map_err(|source| LogError::Sqlite { operation, source: refused_commit(source) })
    }
}

/// Whether SQLite rejected one row and the transaction continues: only that statement was rolled back.
fn is_of_one_row(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch)
    )
}
