//! The recorded events that a party may see (`docs/decisions/0002-accounts-and-computers.md`).

pub mod browse;

use domain::held::MachineFacts;
use domain::ids::UserAccountId;
use domain::recorder::Recorders;
use statistics::contract::RecordScope;
use store::{Store, StoreError};

/// The events visible to a computer: the ones that it recorded.
#[boxed]
pub async fn scope_of_computer(store: &Store, facts: &MachineFacts) -> Result<RecordScope, StoreError> {
    Ok(RecordScope {
        account: facts.account.clone(),
        identities: vec![facts.user_cuid.clone()],
        machine: Some(facts.machine_uuid),
        shown: own_records(store, facts).await?,
    })
}

/// The events visible to an account: the events of its computers, and the service's reports about them.
#[boxed]
pub async fn scope_of_account(store: &Store, account: &UserAccountId) -> Result<RecordScope, StoreError> {
    let identities = store.identities_of_account(account).await?;
    let shown = store.recorders_of_account(account).await?;
    Ok(RecordScope { account: Some(account.clone()), identities, machine: None, shown })
}

/// The events that a computer recorded itself. After an operator removes a computer, any client can register in its place:
/// earlier events stay with the owner.
async fn own_records(store: &Store, facts: &MachineFacts) -> Result<Recorders, StoreError> {
    let own = Recorders::of_computer(facts.machine_uuid, facts.user_cuid.clone(), facts.part);
    let Some(owner) = facts.identity_account.as_ref().filter(|_| facts.is_outsider()) else { return Ok(own) };
    let owners = store.recorders_of_account(owner).await?;
    Ok(if owners.has_computer(facts.machine_uuid) { Recorders::default() } else { own })
}
