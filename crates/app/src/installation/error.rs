//! Why the main database and the log cannot be opened.

use super::refusal::StartRefusal;

/// The reason. The messages name a remedy.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A database failed.
    #[error("the database failed")]
    Store(#[from] store::StoreError),
    /// The embedded log failed.
    #[error("the embedded statistics service failed")]
    Log(#[from] statistics::log::LogError),
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
