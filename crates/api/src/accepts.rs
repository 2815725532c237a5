//! The credentials that a route accepts.

use domain::agent_right::{AgentRight, AgentRights};

/// A set of credentials. The high byte has the rights that agents with limited rights require.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepts(u16);

impl Accepts {
    /// The route requires no credential and reads none.
    pub const NONE: Self = Self(0);
    /// `accountBearer`: the access token of a claimed agent with any rights.
    pub const ACCOUNT: Self = Self(1);
    /// `sessionCookie`: a signed-in browser.
    pub const SESSION: Self = Self(2);
    /// `machineBearer`: the secret of a computer.
    pub const MACHINE: Self = Self(4);
    /// `preClaimBearer`: the access token of an unclaimed agent.
    pub const PRE_CLAIM: Self = Self(8);
    /// `apiKey`: an API key on the knowledge API.
    pub const API_KEY: Self = Self(16);
    /// `apiKey` with the scope `account`, on the account API.
    pub const ACCOUNT_KEY: Self = Self(32);

    /// `accountBearer` of an agent that has this right.
    pub const fn agent(right: AgentRight) -> Self {
        Self(Self::ACCOUNT.0 | Self::bit(right))
    }

    const fn bit(right: AgentRight) -> u16 {
        1 << (8 + right as u16)
    }

    /// The first right that the route requires and an agent with these rights lacks; `None` if the route accepts the agent. An agent
    /// without limits has all rights.
    pub fn lacks(self, rights: Option<AgentRights>) -> Option<AgentRight> {
        let required = AgentRight::ALL.iter().copied().filter(|right| self.0 & Self::bit(*right) != 0);
        required.into_iter().find(|right| !AgentRights::permit(rights, *right))
    }

    /// Whether the route requires a right of agents.
    pub fn needs_right(self) -> bool {
        self.0 > 0xff
    }

    /// The union of two sets: the route accepts any credential of either set.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the set contains all credentials of `other`.
    pub const fn includes(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}
