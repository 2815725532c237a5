//! Names that an account gives to its computers and agents (`docs/decisions/0002-accounts-and-computers.md`).

use actors::InfraError;
use domain::ids::{MachineUuid, RegistrationId, UserAccountId};
use domain::label::Label;

use super::Ports;

/// Writes the names. Clones share the database.
#[derive(Debug, Clone)]
pub struct Labels {
    ports: Ports,
}

impl Labels {
    /// Labels in the store of `ports`.
    pub fn new(ports: Ports) -> Self {
        Self { ports }
    }

    /// Names a computer, or removes its name; `false` if it was never attached to the account.
    #[boxed]
    pub async fn name_computer(
        &self,
        machine: MachineUuid,
        account: UserAccountId,
        label: Option<Label>,
    ) -> Result<bool, InfraError> {
        let store = self.ports.store.clone();
        Ok(actors::detached(async move { store.computer_label_set(machine, &account, label.as_ref()).await }).await??)
    }

    /// Names an agent, or removes its name; `false` if it does not belong to the account.
    #[boxed]
    pub async fn name_agent(
        &self,
        agent: RegistrationId,
        account: UserAccountId,
        label: Option<Label>,
    ) -> Result<bool, InfraError> {
        let store = self.ports.store.clone();
        Ok(actors::detached(async move { store.agent_label_set(agent, &account, label.as_ref()).await }).await??)
    }
}
