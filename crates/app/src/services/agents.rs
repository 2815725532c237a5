//! Agents of an account (`docs/decisions/0005-agents.md`).

pub use store::claim::Confirmed;

use domain::claim::{Attempt, Registration};
use domain::ids::{RegistrationId, UserAccountId};
use domain::secret::Secret;
use store::StoreError;

use super::Ports;

/// Reads agents. Clones share the database.
#[derive(Debug, Clone)]
pub struct AccountAgents {
    ports: Ports,
}

impl AccountAgents {
    /// Agents in the store of `ports`.
    pub fn new(ports: Ports) -> Self {
        Self { ports }
    }

    /// An agent that acts for the account, or did until it was revoked; `None` for an agent of another account.
    #[boxed]
    pub async fn of_account(
        &self,
        id: RegistrationId,
        account: &UserAccountId,
    ) -> Result<Option<Registration>, StoreError> {
        let agent = self.ports.store.registration_by_id(id).await?.map(|(agent, _)| agent);
        Ok(agent.filter(|agent| agent.claim.as_ref().is_some_and(|claim| claim.account == *account)))
    }

    /// The newest agents of an account, revoked ones among them.
    #[boxed]
    pub async fn list(&self, account: &UserAccountId, rows_max: usize) -> Result<Vec<Registration>, StoreError> {
        self.ports.store.agents_of_account(account, rows_max).await
    }

    /// The agent of a claim attempt, with its newest attempt.
    #[boxed]
    pub async fn of_attempt(&self, attempt: &Secret) -> Result<Option<(Registration, Option<Attempt>)>, StoreError> {
        match self.ports.store.attempt_owner(&attempt.hash()).await? {
            Some(id) => self.ports.store.registration_by_id(id).await,
            None => Ok(None),
        }
    }

    /// The agents and computers whose confirmation ends with an agent.
    #[boxed]
    pub async fn confirmed_by(&self, id: RegistrationId) -> Result<Confirmed, StoreError> {
        self.ports.store.confirmed_by(id).await
    }
}
