//! Rights of an agent that acts for an account (`docs/decisions/0005-agents.md`).
//!
//! An agent that is confirmed by the claim flow of the protocol has the rights of account bearers. An agent that is confirmed on the
//! page of its computer has only the rights that the person selected there.

use std::str::FromStr;

use crate::UnknownName;

/// A permission of an agent to act for its person.
#[derive(strum::EnumString, strum::IntoStaticStr, strum::VariantNames, strum::Display, strum::VariantArray)]
#[strum(serialize_all = "snake_case", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AgentRight {
    /// Read the account: its summary, computers, usage, activity, proofs, consent, keys, webhooks and sessions.
    Read,
    /// Set consent levels.
    SetConsent,
    /// Confirm other agents, which get at most its own rights.
    ConfirmAgents,
    /// Approve or deny computers.
    ConfirmComputers,
    /// Detach computers.
    DetachComputers,
    /// Send events without a computer. No page offers it: tools record with the secret of their computer.
    SendEvents,
}

impl AgentRight {
    /// All rights, in the order of pages and rows.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The name in rows and refusals.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The right as the end of "it may".
    pub fn words(self) -> &'static str {
        match self {
            Self::Read => "read your account, its events and consent",
            Self::SetConsent => "set your consent",
            Self::ConfirmAgents => "confirm other agents, with at most its own rights",
            Self::ConfirmComputers => "approve and deny computers",
            Self::DetachComputers => "detach your computers",
            Self::SendEvents => "send events without a computer",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of rights. As text: their names, between commas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AgentRights(u8);

impl AgentRights {
    /// Whether the set contains the right.
    pub fn contains(self, right: AgentRight) -> bool {
        self.0 & right.bit() != 0
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The rights of the set, in the order of [`AgentRight::ALL`].
    pub fn iter(self) -> impl Iterator<Item = AgentRight> {
        AgentRight::ALL.iter().copied().filter(move |right| self.contains(*right))
    }

    /// Whether an agent with these rights has `right`. `None` means the rights that the protocol gives account bearers: all.
    pub fn permit(rights: Option<Self>, right: AgentRight) -> bool {
        rights.is_none_or(|rights| rights.contains(right))
    }

    /// The text in rows.
    pub fn as_text(self) -> String {
        self.iter().map(AgentRight::as_str).collect::<Vec<_>>().join(",")
    }
}

impl FromIterator<AgentRight> for AgentRights {
    fn from_iter<I: IntoIterator<Item = AgentRight>>(rights: I) -> Self {
        Self(rights.into_iter().fold(0, |bits, right| bits | right.bit()))
    }
}

impl FromStr for AgentRights {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        text.split(',').filter(|name| !name.is_empty()).map(str::parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_of_rights_is_read_as_it_was_written() {
        for bits in 0..1 << AgentRight::ALL.len() {
            let rights = AgentRights(bits);
            assert_eq!(rights.as_text().parse(), Ok(rights));
            assert_eq!(rights.iter().collect::<AgentRights>(), rights);
            for right in AgentRight::ALL {
                assert_eq!(AgentRights::permit(Some(rights), *right), rights.iter().any(|other| other == *right));
                assert!(AgentRights::permit(None, *right));
            }
        }
        assert_eq!("read,set_consent".parse::<AgentRights>().unwrap().iter().count(), 2);
        assert!("read,admin".parse::<AgentRights>().is_err());
    }
}
