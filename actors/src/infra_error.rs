//! What keeps an actor from giving an answer of the law.

use store::StoreError;
use supervision::Unavailable;

/// Something that is not an answer of the law: the store or the actor could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum InfraError {
    /// A statement failed, or the database cannot be reached.
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// The actor gave no answer.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// Keys or other material that should be there.
    #[error("{0}")]
    Internal(String),
}
