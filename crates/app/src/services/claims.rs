//! Confirmation of agents by a person (`docs/decisions/0005-agents.md`).

use actors::claim::{AskResult, Claims, CompleteError, Confirmer};
use domain::claim::ClaimCode;
use domain::ids::{Email, PersonId, UserAccountId};
use domain::secret::Secret;

use super::confirmation::{DecidesWith, DecisionRefusal, RecentSignIn, may_decide};

/// Completes claims. Clones share the actors.
#[derive(Debug, Clone)]
pub struct ClaimConfirmations {
    claims: Claims,
    recent: RecentSignIn,
    /// Whether only browser sessions may confirm (`claims.require_session`).
    session_required: bool,
}

/// A person who may confirm: created by [`ClaimConfirmations::confirmer`].
#[derive(Debug)]
pub struct MayConfirm(Confirmer);

impl ClaimConfirmations {
    /// `session_required` is `claims.require_session`.
    pub fn new(claims: Claims, recent: RecentSignIn, session_required: bool) -> Self {
        Self { claims, recent, session_required }
    }

    /// Whether this credential may confirm agents, regardless of the time of the sign-in.
    pub fn may_decide(&self, with: DecidesWith) -> Result<(), DecisionRefusal> {
        may_decide(with, self.session_required).map(drop)
    }

    /// Whether this person may confirm with this credential. A session requires a recent sign-in.
    pub fn confirmer(
        &self,
        person: PersonId,
        email: Email,
        account: UserAccountId,
        with: DecidesWith,
    ) -> Result<MayConfirm, DecisionRefusal> {
        let via = self.recent.decide(with, self.session_required)?;
        Ok(MayConfirm(Confirmer { person, email, account, via }))
    }

    /// Completes the claim attempt with this token, if the code is right.
    #[boxed]
    pub async fn complete(
        &self,
        attempt: &Secret,
        code: ClaimCode,
        MayConfirm(confirmer): MayConfirm,
    ) -> AskResult<(), CompleteError> {
        self.claims.complete(attempt, code, confirmer).await
    }
}
