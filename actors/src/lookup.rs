//! Finds the computers behind presented secrets.
//!
//! Every event starts with this read. SQLite answers it on the thread of the request. On PostgreSQL a round trip costs far more than
//! the lookup, so concurrent requests share one statement, through the actor that also groups commits. Neither case caches: a
//! revoked secret is refused by the next request.
//!
//! **If it crashes:** requests in progress get 424; a new actor runs the next group.

use domain::secret::SecretHash;
use store::machine::KnownMachine;
use store::{Store, StoreError};
use supervision::Handle;
use supervision::commit::{CommitError, CommitMessage, Ledger};

use crate::infra_error::InfraError;

/// Computers by their secrets.
#[derive(Debug, Clone)]
pub struct SecretBatch(pub Store);

impl Ledger for SecretBatch {
    type Item = SecretHash;
    type Outcome = Option<KnownMachine>;

    async fn commit(&self, items: &[SecretHash]) -> Result<Vec<Option<KnownMachine>>, CommitError> {
        domain::failpoint!("lookup.read");
        self.0.machines_by_secret(items).await.map_err(|error: StoreError| CommitError {
            unavailable: error.is_unavailable(),
            detail: domain::reasons(&error),
        })
    }
}

/// The lookup of computers by secret.
#[derive(Debug, Clone)]
pub enum MachineLookup {
    /// Each request reads on its own thread.
    InPlace(Store),
    /// Concurrent requests share a statement.
    Grouped(Handle<CommitMessage<SecretBatch>>),
}

impl MachineLookup {
    /// The computer with this secret; `None` if the secret is unknown or revoked.
    #[boxed]
    pub async fn machine(&self, secret: SecretHash) -> Result<Option<KnownMachine>, InfraError> {
        let group = match self {
            Self::InPlace(store) => return Ok(store.machine_by_secret(&secret).await?),
            Self::Grouped(group) => group,
        };
        let deadline = group.ask_deadline();
        let outcome = group.ask(|reply| CommitMessage::Add { item: secret, reply }, deadline).await?;
        Ok(outcome?)
    }
}
