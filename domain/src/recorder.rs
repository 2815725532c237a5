//! Who recorded an event: a computer, under the identity that it named when it registered.

use serde::Serialize;

use crate::ids::{MachineUuid, UserCuid};

/// A computer with the identity under which it records.
///
/// Anybody may register a computer under any identity, so an identity alone never identifies the owner of records.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Recorder {
    /// The computer.
    pub machine: MachineUuid,
    /// The identity.
    pub identity: UserCuid,
}

/// Whose records a read shows. Taken from the store, never from a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorders {
    /// Computers: the caller itself, or those that are or were attached to the caller's account.
    pub computers: Vec<Recorder>,
    /// The chains on which the service reports changes for the account's identities. A report that is about a computer counts
    /// only if that computer is one of `computers`.
    pub service: Vec<Recorder>,
}

impl Recorders {
    /// One computer, which reads its own records.
    pub fn of_computer(machine: MachineUuid, identity: UserCuid) -> Self {
        Self { computers: vec![Recorder { machine, identity }], service: Vec::new() }
    }

    /// Computers first, then the service.
    pub fn all(&self) -> impl Iterator<Item = &Recorder> {
        self.computers.iter().chain(&self.service)
    }

    /// Whether it is one of the computers.
    pub fn has_computer(&self, machine: MachineUuid) -> bool {
        self.computers.iter().any(|known| known.machine == machine)
    }
}
