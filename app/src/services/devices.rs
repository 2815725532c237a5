//! Device codes: a person approves or denies the computer that shows one (`docs/decisions/0012-device-codes.md`).

use std::time::Duration;

use actors::InfraError;
use actors::device::{AnswerError, AskResult, CodeLookup, DeviceCodes};
use domain::confirm::ConfirmedVia;
use domain::device::UserCode;
use domain::ids::PersonId;
use store::device::Approver;

use super::confirmation::{DecidesWith, DecisionRefusal, RecentSignIn, may_decide};

/// Decides about device codes. Clones share the actors.
#[derive(Debug, Clone)]
pub struct DeviceApprovals {
    codes: DeviceCodes,
    recent: RecentSignIn,
    /// Whether only browser sessions may decide (`devices.require_session`).
    session_required: bool,
    /// Time without a request after which a computer that was never attached is removed (`janitor.purge.unattached_kept`).
    unattached_kept: Duration,
}

/// A person who may approve: created by [`DeviceApprovals::approver`].
#[derive(Debug)]
pub struct MayApprove(Approver);

/// A person who may deny: created by [`DeviceApprovals::denier`].
#[derive(Debug)]
pub struct MayDeny(Approver);

impl DeviceApprovals {
    /// `session_required` is `devices.require_session`, `unattached_kept` is `janitor.purge.unattached_kept`.
    pub fn new(codes: DeviceCodes, recent: RecentSignIn, session_required: bool, unattached_kept: Duration) -> Self {
        Self { codes, recent, session_required, unattached_kept }
    }

    /// Time without a request after which a computer that was never attached is removed.
    pub fn unattached_kept(&self) -> Duration {
        self.unattached_kept
    }

    /// Whether this person may approve with this credential. A session requires a recent sign-in.
    pub fn approver(&self, person: PersonId, with: DecidesWith) -> Result<MayApprove, DecisionRefusal> {
        let via = self.recent.decide(with, self.session_required)?;
        Ok(MayApprove(Approver { person, via }))
    }

    /// Whether this person may deny with this credential. A sign-in of any age suffices.
    pub fn denier(&self, person: PersonId, with: DecidesWith) -> Result<MayDeny, DecisionRefusal> {
        let via = may_decide(with, self.session_required)?;
        Ok(MayDeny(Approver { person, via }))
    }

    /// Attaches the computer that shows this code to the person's account. A key that it asks for stays without effect.
    pub async fn approve(&self, code: &UserCode, MayApprove(approver): MayApprove) -> AskResult<(), AnswerError> {
        Ok(self.codes.approve(code, approver, false).await?.map(drop))
    }

    /// The same, and the key that the computer asks for becomes valid if a person decides in a browser: what an agent made would outlive
    /// the agent.
    pub async fn approve_with_key(
        &self,
        code: &UserCode,
        MayApprove(approver): MayApprove,
    ) -> AskResult<(), AnswerError> {
        let with_key = approver.via == ConfirmedVia::Session;
        Ok(self.codes.approve(code, approver, with_key).await?.map(drop))
    }

    /// Denies the computer that shows this code.
    pub async fn deny(&self, code: &UserCode, MayDeny(denier): MayDeny) -> AskResult<(), AnswerError> {
        self.codes.deny(code, denier).await
    }

    /// The computer that shows this code. A wrong code counts as a guess of the person.
    pub async fn look(&self, code: &UserCode, person: PersonId) -> Result<CodeLookup, InfraError> {
        self.codes.look(code, person).await
    }
}
