//! The group commit of held events.

use domain::live::Live;
use store::held::{HeldOutcome, HeldQuotas, NewHeld};
use store::{Store, StoreError};
use supervision::commit::{CommitError, Ledger};

/// The list of held events.
#[derive(Debug, Clone)]
pub struct HeldBatch {
    /// The database of held events.
    pub store: Store,
    /// How much may be held.
    pub quotas: Live<HeldQuotas>,
}

impl Ledger for HeldBatch {
    type Item = NewHeld;
    type Outcome = HeldOutcome;

    async fn commit(&self, items: &[NewHeld]) -> Result<Vec<HeldOutcome>, CommitError> {
        domain::failpoint!("hold.before");
        let quotas = **self.quotas.get();
        let committed = self.store.held_insert(items, &quotas).await;
        domain::failpoint!("hold.after");
        committed.map_err(|error: StoreError| CommitError {
            unavailable: error.is_unavailable(),
            detail: domain::reasons(&error),
        })
    }
}
