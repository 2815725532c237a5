//! The recent sign-in that a decision with a lasting effect requires: attaching a computer, confirming an agent, creating an API key
//! (`docs/decisions/0003-sign-in.md`). A browser may be unattended; the effect would outlive its session.
//!
//! The services of these decisions take a [`RecentlySignedIn`], which only [`RecentSignIn::check`] creates.

use std::time::Duration;

use domain::clock::delta;
use domain::confirm::ConfirmedVia;
use domain::ids::RegistrationId;
use domain::{Clock, Timestamp};

/// The credential with which a person decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecidesWith {
    /// A browser session.
    Session {
        /// The time of the sign-in.
        signed_in_at: Timestamp,
    },
    /// The access token of an agent.
    Agent(RegistrationId),
}

impl From<DecidesWith> for ConfirmedVia {
    fn from(with: DecidesWith) -> Self {
        match with {
            DecidesWith::Session { .. } => Self::Session,
            DecidesWith::Agent(agent) => Self::Agent(agent),
        }
    }
}

/// Why a person may not decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecisionRefusal {
    /// The operator allows this decision to browser sessions only.
    #[error("the decision requires a browser session")]
    SessionRequired,
    /// The sign-in is too old.
    #[error(transparent)]
    SignInAgain(#[from] SignInAgain),
}

/// The sign-in is too old for the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the decision requires a sign-in within the last {within:?}")]
pub struct SignInAgain {
    /// Maximum age of the sign-in.
    pub within: Duration,
}

/// Proof that the person signed in recently, or decides through an agent, which has no sign-in.
#[derive(Debug)]
pub struct RecentlySignedIn(());

/// The rule (`signin.fresh_within`).
#[derive(Debug, Clone)]
pub struct RecentSignIn {
    clock: Clock,
    within: Duration,
}

impl RecentSignIn {
    /// `within` is the maximum age of a recent sign-in.
    pub fn new(clock: Clock, within: Duration) -> Self {
        Self { clock, within }
    }

    /// Whether a sign-in at this time is recent.
    pub fn is_recent(&self, signed_in_at: Timestamp) -> bool {
        self.clock.now() - signed_in_at <= delta(self.within)
    }

    /// Checks the rule for a decision with this credential.
    pub fn check(&self, with: DecidesWith) -> Result<RecentlySignedIn, SignInAgain> {
        match with {
            DecidesWith::Session { signed_in_at } if !self.is_recent(signed_in_at) => {
                Err(SignInAgain { within: self.within })
            }
            DecidesWith::Session { .. } | DecidesWith::Agent(_) => Ok(RecentlySignedIn(())),
        }
    }

    /// Checks first whether the credential may decide at all, then the sign-in.
    pub(super) fn decide(&self, with: DecidesWith, session_required: bool) -> Result<ConfirmedVia, DecisionRefusal> {
        let via = may_decide(with, session_required)?;
        self.check(with)?;
        Ok(via)
    }
}

/// Whether a credential may decide, regardless of the time of the sign-in.
pub(super) fn may_decide(with: DecidesWith, session_required: bool) -> Result<ConfirmedVia, DecisionRefusal> {
    match with {
        DecidesWith::Agent(_) if session_required => Err(DecisionRefusal::SessionRequired),
        DecidesWith::Agent(_) | DecidesWith::Session { .. } => Ok(with.into()),
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    fn rule() -> (RecentSignIn, Timestamp) {
        let now = Timestamp::UNIX_EPOCH + TimeDelta::days(1);
        (RecentSignIn::new(Clock::from_fn(move || now), Duration::from_mins(15)), now)
    }

    #[test]
    fn a_session_decides_within_the_limit_and_an_agent_at_any_time() {
        let (rule, now) = rule();
        let session = |minutes| DecidesWith::Session { signed_in_at: now - TimeDelta::minutes(minutes) };
        assert!(rule.check(session(15)).is_ok());
        assert_eq!(rule.check(session(16)).unwrap_err().within, Duration::from_mins(15));
        assert!(rule.check(DecidesWith::Agent(uuid::Uuid::from_u128(1).into())).is_ok());
    }

    #[test]
    fn a_credential_that_may_not_decide_is_refused_before_its_sign_in_is_checked() {
        let (rule, now) = rule();
        let agent = DecidesWith::Agent(uuid::Uuid::from_u128(1).into());
        assert_eq!(rule.decide(agent, true), Err(DecisionRefusal::SessionRequired));
        assert!(rule.decide(agent, false).is_ok());
        let old = DecidesWith::Session { signed_in_at: now - TimeDelta::hours(1) };
        assert!(matches!(rule.decide(old, true), Err(DecisionRefusal::SignInAgain(_))));
        assert!(may_decide(old, true).is_ok());
    }
}
