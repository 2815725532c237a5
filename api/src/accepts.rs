//! The credentials that a route accepts.

/// A set of credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepts(u8);

impl Accepts {
    /// The route requires no credential and reads none.
    pub const NONE: Self = Self(0);
    /// `accountBearer`: the access token of a claimed agent.
    pub const ACCOUNT: Self = Self(1);
    /// `sessionCookie`: a signed-in browser.
    pub const SESSION: Self = Self(2);
    /// `machineBearer`: the secret of a computer.
    pub const MACHINE: Self = Self(4);
    /// `preClaimBearer`: the access token of an unclaimed agent.
    pub const PRE_CLAIM: Self = Self(8);
    /// `apiKey`: an API key of the knowledge API.
    pub const API_KEY: Self = Self(16);

    /// The union of two sets: the route accepts any one of them.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the set contains all credentials of `other`.
    pub const fn includes(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}
