//! Why the main database and the log cannot be opened.

use statistics::log::LogError;
use store::StoreError;

use super::refusal::StartRefusal;

/// The reason. The messages name a remedy.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A database failed.
    #[error("the database failed")]
    Store(#[from] StoreError),
    /// The embedded log failed.
    #[error("the embedded statistics service failed")]
    Log(#[from] LogError),
    /// The client of an external statistics service cannot be set up.
    #[error("the client of the external statistics service cannot be set up")]
    Client(#[from] statistics::client::ClientError),
    /// A database that must exist does not.
    #[error("{0} does not exist yet")]
    Absent(&'static str),
    /// The client of a witness cannot be set up.
    #[error("the client of a witness in log.witness cannot be set up")]
    Witness(#[from] statistics::witness::WitnessFault),
    /// The main database and the log do not belong together.
    #[error(transparent)]
    Mismatch(#[from] StartRefusal),
    /// A new epoch of the log cannot start.
    #[error("a new epoch of the event log cannot begin: {0}")]
    Epoch(String),
}

impl OpenError {
    /// Whether a start may succeed when it is repeated: a statement found an open database unavailable. A database that cannot be opened
    /// is not among them, so that a wrong address is reported immediately.
    pub(super) fn is_unanswered(&self) -> bool {
        match self {
            Self::Store(error) | Self::Log(LogError::Store(error)) => is_unanswered(error),
            Self::Log(LogError::Sql { source, .. }) => store::error::is_unavailable(source),
            _ => false,
        }
    }
}

fn is_unanswered(error: &StoreError) -> bool {
    !matches!(error, StoreError::Open { .. }) && error.is_unavailable()
}
