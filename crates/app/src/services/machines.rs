//! Registration and detachment of computers (`docs/decisions/0002-accounts-and-computers.md`).

pub use store::machine::Computer;

use actors::InfraError;
use actors::Unavailable;
use domain::Timestamp;
use domain::ids::{Email, MachineUuid, UserAccountId, UserCuid};
use domain::log_part::PartWeights;
use domain::secret::{Secret, SecretKind};
use store::StoreError;
use store::machine::{NewMachine, Register};

use super::Ports;
use crate::config::{MachineRegistration, MachineSettings};

/// Maximum number of computers in a list.
pub const COMPUTERS_MAX: usize = 500;

/// Registers, lists and detaches computers. Clones share the database.
#[derive(Debug, Clone)]
pub struct Machines {
    ports: Ports,
    settings: MachineSettings,
    weights: PartWeights,
}

/// A computer that registers itself.
#[derive(Debug)]
pub struct NewComputer {
    /// Its id, chosen by the computer.
    pub machine_uuid: MachineUuid,
    /// The identity that it names.
    pub user_cuid: UserCuid,
    /// Its name, trimmed.
    pub name: Option<String>,
}

/// Why the server accepts no registration from this client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EnrolRefusal {
    /// Only operators register computers (`machines.registration = "off"`).
    #[error("registration is closed")]
    Closed,
    /// The enrolment key is missing or wrong.
    #[error("the enrolment key is missing or wrong")]
    WrongKey,
}

/// Why a computer is not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterRefusal {
    /// A computer with this id is registered.
    #[error("the computer is registered already")]
    AlreadyRegistered,
    /// The store failed.
    #[error(transparent)]
    Infra(#[from] InfraError),
}

impl From<StoreError> for RegisterRefusal {
    fn from(error: StoreError) -> Self {
        Self::Infra(error.into())
    }
}

impl From<Unavailable> for RegisterRefusal {
    fn from(error: Unavailable) -> Self {
        Self::Infra(error.into())
    }
}

impl Machines {
    /// `settings` is the section `[machines]`, and `weights` the shares of the parts of the log.
    pub fn new(ports: Ports, settings: MachineSettings, weights: PartWeights) -> Self {
        Self { ports, settings, weights }
    }

    /// Whether a client that presents this enrolment key may register computers.
    pub fn may_enrol(&self, presented: Option<&Secret>) -> Result<(), EnrolRefusal> {
        match self.settings.registration {
            MachineRegistration::Open => Ok(()),
            MachineRegistration::Off => Err(EnrolRefusal::Closed),
            MachineRegistration::Key => {
                let wanted = self.settings.enrolment_key.as_deref().map(|key| Secret::presented(key).hash());
                // Comparing hashes reveals nothing about the key through its timing.
                let is_right = wanted.is_some() && presented.map(Secret::hash) == wanted;
                if is_right { Ok(()) } else { Err(EnrolRefusal::WrongKey) }
            }
        }
    }

    /// Registers a computer and returns its secret, which is stored only as a hash, and the time of the registration.
    #[boxed]
    pub async fn register(&self, new: NewComputer) -> Result<(Secret, Timestamp), RegisterRefusal> {
        let Ports { store, clock, rng } = &self.ports;
        let secret = Secret::mint(SecretKind::Machine, rng);
        let (store, now, hash) = (store.clone(), clock.now(), secret.hash());
        let part = self.weights.part_of(new.machine_uuid);
        let registered = actors::detached(async move {
            let NewComputer { machine_uuid, user_cuid, name } = &new;
            let new = NewMachine { machine_uuid: *machine_uuid, user_cuid, name: name.as_deref(), secret: hash, part };
            store.machine_register(&new, now).await
        });
        match registered.await?? {
            Register::Registered => Ok((secret, now)),
            Register::AlreadyRegistered => Err(RegisterRefusal::AlreadyRegistered),
        }
    }

    /// Detaches a computer of an account and ends its secret and its key; `false` if the account has no such computer.
    #[boxed]
    pub async fn detach(&self, machine: MachineUuid, account: UserAccountId) -> Result<bool, InfraError> {
        let (store, now) = (self.ports.store.clone(), self.ports.clock.now());
        Ok(actors::detached(async move { store.machine_detach(machine, &account, now).await }).await??)
    }

    /// The computers that are attached to an account, the newest first.
    #[boxed]
    pub async fn attached(&self, account: &UserAccountId) -> Result<Vec<Computer>, StoreError> {
        self.ports.store.computers_of_account(account, COMPUTERS_MAX).await
    }

    /// Computers that were attached to an account.
    #[boxed]
    pub async fn ended(&self, account: &UserAccountId, rows_max: usize) -> Result<Vec<Computer>, StoreError> {
        self.ports.store.computers_ended(account, rows_max).await
    }

    /// A computer that is attached to an account, or was.
    #[boxed]
    pub async fn of_account(
        &self,
        machine: MachineUuid,
        account: &UserAccountId,
    ) -> Result<Option<Computer>, StoreError> {
        let is_it = |computer: &Computer| computer.machine_uuid == machine;
        if let Some(computer) = self.attached(account).await?.into_iter().find(is_it) {
            return Ok(Some(computer));
        }
        Ok(self.ended(account, COMPUTERS_MAX).await?.into_iter().find(is_it))
    }

    /// The e-mail address of an account's owner; `None` if a person does not own it yet.
    #[boxed]
    pub async fn owner(&self, account: &UserAccountId) -> Result<Option<Email>, StoreError> {
        let account = self.ports.store.account_by_id(account).await?;
        Ok(account.and_then(|account| account.owner).map(|(_, email)| email))
    }
}
