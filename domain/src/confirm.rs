//! The credential with which a person's decision was made: an agent that is confirmed, a computer that is approved or denied
//! (`docs/decisions/0054-fresh-sign-in-for-claims-and-keys.md`).

use crate::ids::RegistrationId;

/// The credential of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfirmedVia {
    /// A browser session of the person.
    Session,
    /// The account token of this agent. Its confirmations end with the agent.
    Agent(RegistrationId),
}

impl ConfirmedVia {
    /// The word for it in rows, logs and letters.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Agent(_) => "account",
        }
    }

    /// The agent whose revocation ends the confirmation.
    pub fn agent(self) -> Option<RegistrationId> {
        match self {
            Self::Session => None,
            Self::Agent(agent) => Some(agent),
        }
    }
}
