//! The credential with which a person's decision was made: an agent that is confirmed, a computer that is approved or denied
//! (`docs/decisions/0054-fresh-sign-in-for-claims-and-keys.md`).

use crate::ids::RegistrationId;

/// The credential of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum ConfirmedVia {
    /// A browser session of the person.
    Session,
    /// The account token of this agent. Its confirmations end with the agent.
    #[strum(serialize = "account")]
    Agent(RegistrationId),
}

impl ConfirmedVia {
    /// The name in rows and logs: `session` or `account`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The agent whose revocation ends the confirmation.
    pub fn agent(self) -> Option<RegistrationId> {
        match self {
            Self::Session => None,
            Self::Agent(agent) => Some(agent),
        }
    }
}
