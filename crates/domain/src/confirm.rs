//! The credential with which a person confirmed an agent, or approved or denied a computer
//! (`docs/decisions/0003-sign-in.md`).

use crate::ids::RegistrationId;

/// The credential of a confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum ConfirmedVia {
    /// A browser session of the person.
    Session,
    /// The account token of this agent. Revoking the agent also ends the confirmations that it made.
    #[strum(serialize = "account")]
    Agent(RegistrationId),
}

impl ConfirmedVia {
    /// The name in rows and logs: `session` or `account`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The agent that made the confirmation; revoking it ends the confirmation.
    pub fn agent(self) -> Option<RegistrationId> {
        match self {
            Self::Session => None,
            Self::Agent(agent) => Some(agent),
        }
    }
}
