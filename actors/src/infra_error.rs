//! What keeps an actor from giving an answer of the law.

use store::StoreError;
use supervision::Unavailable;
use supervision::commit::CommitError;

/// Something that is not an answer of the law: the store or the actor could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum InfraError {
    /// A statement failed, or the database cannot be reached.
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// A group of reads or writes failed; its actor has logged the error.
    #[error(transparent)]
    Group(#[from] CommitError),
    /// The actor gave no answer.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// Keys or other material that should be there.
    #[error("{0}")]
    Internal(String),
}
