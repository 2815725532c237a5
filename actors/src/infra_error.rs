//! Failures of infrastructure, as opposed to refusals.

use domain::service_pause::Paused;
use store::StoreError;
use supervision::Unavailable;
use supervision::commit::CommitError;

/// A failure of the store, an actor or key material, as opposed to a refusal.
#[derive(Debug, thiserror::Error)]
pub enum InfraError {
    /// A statement failed, or the database cannot be reached.
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// A group of reads or writes failed; its actor has logged the error.
    #[error(transparent)]
    Group(#[from] CommitError),
    /// The actor did not reply.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// An operator has paused this part of the service.
    #[error(transparent)]
    Paused(#[from] Paused),
    /// Keys or other required material is missing.
    #[error("{0}")]
    Internal(String),
}
