//! The recorder of an event: a computer, under the identity that it registered.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::ids::{InstallationId, MachineUuid, UserCuid};
use crate::log_part::LogPart;

/// A computer with its identity.
///
/// Any computer can register under any identity, so the identity does not identify the owner of a record without
/// the computer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Recorder {
    /// Id of the computer.
    pub machine: MachineUuid,
    /// Identity that the computer records for.
    pub identity: UserCuid,
}

impl InstallationId {
    /// The recorder of the installation's own chain: its epochs of the log, and acts of operators.
    pub fn recorder(self) -> Recorder {
        Recorder { machine: self.as_uuid().into(), identity: self.into() }
    }
}

/// The recorders of the events that a reader may see. Read from the store, never from a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorders {
    /// The calling computer, or the computers that are or were attached to the caller's account.
    pub computers: Vec<Recorder>,
    /// The chains in which the service reports changes for the account's identities. A report about a computer is
    /// visible only if `computers` contains it.
    pub service: Vec<Recorder>,
    /// The parts of the log with their chains. The service's chains are in the first part.
    pub parts: BTreeSet<LogPart>,
}

impl Recorders {
    /// A computer that reads its own records.
    pub fn of_computer(machine: MachineUuid, identity: UserCuid, part: LogPart) -> Self {
        Self { computers: vec![Recorder { machine, identity }], service: Vec::new(), parts: [part].into() }
    }

    /// All recorders: computers first, then the service.
    pub fn all(&self) -> impl Iterator<Item = &Recorder> {
        self.computers.iter().chain(&self.service)
    }

    /// Whether `machine` is one of `computers`.
    pub fn has_computer(&self, machine: MachineUuid) -> bool {
        self.computers.iter().any(|recorder| recorder.machine == machine)
    }
}
