//! Device codes: a person approves or denies the computer that shows one (`docs/decisions/0004-device-codes.md`).

pub use store::device::{AskingDevice, OTHERS_MAX};

use std::time::Duration;

use actors::InfraError;
use actors::claim::Claims;
use actors::device::{AskResult, CodeLookup, DeviceCodes, Extras};
use domain::confirm::ConfirmedVia;
use domain::device::UserCode;
use domain::device::approval::ApprovalRefusal;
use domain::ids::PersonId;
use store::device::Approver;

use super::confirmation::{DecidesWith, DecisionRefusal, RecentSignIn, may_decide};

/// Decides about device codes. Clones share the actors.
#[derive(Debug, Clone)]
pub struct DeviceApprovals {
    codes: DeviceCodes,
    claims: Claims,
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
    pub fn new(
        codes: DeviceCodes,
        claims: Claims,
        recent: RecentSignIn,
        session_required: bool,
        unattached_kept: Duration,
    ) -> Self {
        Self { codes, claims, recent, session_required, unattached_kept }
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

    /// Attaches the computer that shows this code to the person's account. The key and the agent of the extras take effect if the person
    /// decides in a browser: no other client shows a page that names them, and a key that an agent made would outlive the agent.
    #[boxed]
    pub async fn approve(
        &self,
        code: &UserCode,
        MayApprove(approver): MayApprove,
        extras: Extras,
    ) -> AskResult<(), ApprovalRefusal> {
        let by_session = approver.via == ConfirmedVia::Session;
        let extras = if by_session { extras } else { Extras { consent: extras.consent, ..Extras::default() } };
        let approval = self.codes.approve(code, approver, extras).await?;
        Ok(approval.map(|approved| {
            // The ceremony of the agent may have been polled, and has the state from before in its memory.
            if let Some(agent) = approved.agent {
                self.claims.hint(agent);
            }
        }))
    }

    /// Denies the computer that shows this code.
    #[boxed]
    pub async fn deny(&self, code: &UserCode, MayDeny(denier): MayDeny) -> AskResult<(), ApprovalRefusal> {
        self.codes.deny(code, denier).await
    }

    /// The computer that shows this code. A wrong code counts as a guess of the person.
    #[boxed]
    pub async fn look(&self, code: &UserCode, person: PersonId) -> Result<CodeLookup, InfraError> {
        self.codes.look(code, person).await
    }
}
