//! The actor behind one device code.

use std::sync::Arc;
use std::time::Duration;

use domain::Timestamp;
use domain::clock::date_time;
use domain::device::approval::ApprovalRefusal;
use domain::device::{DeviceCode, DeviceState, Pacing, PollState};
use domain::ids::MachineUuid;
use domain::mail;
use domain::secret::SecretHash;
use store::device::{Agreed, Approval, Approver, AttachedDevice};
use supervision::{ActorError, Facts, KeyedActor, Reply, SelfRef};
use tokio::time::Instant;

use super::contract::{Dependencies, Poll};
use crate::infra_error::InfraError;
use crate::mail::queued;

/// Sent by [`super::DeviceCodes`].
#[derive(Debug)]
pub enum DeviceMessage {
    /// A poll of the computer.
    Poll {
        /// Receives the state of the code.
        reply: Reply<Result<Poll, InfraError>>,
    },
    /// A person approves the computer.
    Approve {
        /// The person, with account and session.
        approver: Approver,
        /// Consents of the person in addition to the attachment.
        agreed: Agreed,
        /// Receives the outcome.
        reply: Reply<Result<Approval, InfraError>>,
    },
    /// A person denies the computer.
    Deny {
        /// The person, with account and session.
        denier: Approver,
        /// Receives whether a pending code was denied.
        reply: Reply<Result<bool, InfraError>>,
    },
    /// The row may have changed elsewhere.
    Refresh,
}

/// Age of the cached row after which a poll reads it again, in case a hint about a change was lost.
const READ_EVERY: Duration = Duration::from_secs(30);

/// The actor; its value holds only the dependencies.
#[derive(Debug, Clone)]
pub struct DevicePoller {
    dependencies: Arc<Dependencies>,
}

/// The cached row and the pacing of the computer.
#[derive(Debug)]
pub struct PollerState {
    code: DeviceCode,
    pacing: Pacing,
    /// When the row was last read.
    read_at: Instant,
    /// When a poll was last accepted. Pacing must not depend on the wall clock, which may be set.
    accepted_at: Option<Instant>,
}

impl DevicePoller {
    pub(super) fn new(dependencies: Arc<Dependencies>) -> Self {
        Self { dependencies }
    }
}

/// What an operator sees of a device code.
pub fn facts(code: &DeviceCode) -> Facts {
    let state = match code.state {
        DeviceState::Pending => "pending",
        DeviceState::Claimed { .. } => "claimed",
        DeviceState::Denied => "denied",
        DeviceState::Expired => "expired",
        DeviceState::Superseded => "superseded",
    };
    let mut facts = vec![
        ("identity", code.identity.to_string()),
        ("created_at", date_time(code.created_at)),
        ("expires_at", date_time(code.expires_at)),
        ("state", state.to_owned()),
    ];
    if let DeviceState::Claimed { account, at } = &code.state {
        facts.push(("account", account.to_string()));
        facts.push(("claimed_at", date_time(*at)));
    }
    facts
}

impl KeyedActor for DevicePoller {
    type Key = SecretHash;
    type Subject = MachineUuid;
    type Message = DeviceMessage;
    type Arguments = DeviceCode;
    type State = PollerState;

    fn subject(code: &DeviceCode) -> MachineUuid {
        code.machine
    }

    fn facts(PollerState { code, read_at, accepted_at, .. }: &PollerState) -> Facts {
        let ago = |at: &Instant| format!("{} s ago", at.elapsed().as_secs());
        let mut facts = facts(code);
        facts.push(("row_read", ago(read_at)));
        facts.push(("last_poll", accepted_at.as_ref().map_or_else(|| "never".to_owned(), ago)));
        facts
    }

    async fn start(&self, _myself: &SelfRef<Self>, code: DeviceCode) -> Result<PollerState, ActorError> {
        Ok(PollerState { code, read_at: Instant::now(), pacing: Pacing::default(), accepted_at: None })
    }

    async fn handle(
        &self,
        _myself: &SelfRef<Self>,
        message: DeviceMessage,
        state: &mut PollerState,
    ) -> Result<(), ActorError> {
        match message {
            DeviceMessage::Poll { reply } => self.on_poll(reply, state).await,
            DeviceMessage::Approve { approver, agreed, reply } => {
                reply.send(Box::pin(self.approve(&approver, agreed, state)).await);
            }
            DeviceMessage::Deny { denier, reply } => {
                reply.send(Box::pin(self.deny(&denier, state)).await);
            }
            // The state of an approved, denied or expired code is final.
            DeviceMessage::Refresh if state.code.state != DeviceState::Pending => {}
            DeviceMessage::Refresh => Box::pin(self.refresh(state)).await,
        }
        Ok(())
    }
}

impl PollerState {
    fn pace(&mut self, now: Instant) -> Poll {
        match self.pacing.poll(self.accepted_at.map(|accepted_at| now - accepted_at)) {
            Ok(()) => {
                self.accepted_at = Some(now);
                Poll::Pending
            }
            Err(interval) => Poll::SlowDown { interval },
        }
    }
}

// Futures that query the store are boxed: nearly every message is a poll, and the future of a poll is as large as its largest branch.
impl DevicePoller {
    async fn on_poll(&self, reply: Reply<Result<Poll, InfraError>>, state: &mut PollerState) {
        domain::failpoint!("devices.poll");
        let now = self.dependencies.clock.now();
        if state.code.state == DeviceState::Pending && state.read_at.elapsed() >= READ_EVERY {
            // If the store fails, the cached row is used until the next read is due.
            state.read_at = Instant::now();
            Box::pin(self.refresh(state)).await;
        }
        if state.code.state == DeviceState::Pending
            && state.code.standing(now) == PollState::Expired
            && let Err(error) = Box::pin(self.expire(state, now)).await
        {
            reply.send(Err(error));
            return;
        }
        reply.send(Ok(match state.code.standing(now) {
            PollState::Pending => state.pace(Instant::now()),
            PollState::Claimed(account) => Poll::Claimed(account),
            PollState::Denied => Poll::Denied,
            PollState::Expired => Poll::Expired,
        }));
    }

    async fn approve(
        &self,
        approver: &Approver,
        agreed: Agreed,
        state: &mut PollerState,
    ) -> Result<Approval, InfraError> {
        let Dependencies { store, clock, rng, base_url, .. } = &*self.dependencies;
        let now = clock.now();
        let notice = |device: &AttachedDevice| {
            let what = mail::Attached {
                machine: device.machine,
                name: device.name.as_deref(),
                address: device.ip_address.as_deref(),
                account: &device.account,
                has_key: device.has_key,
                agent: device.agent,
                via: approver.via,
                consent: agreed.consent,
                at: now,
            };
            queued(mail::attached(device.owner.clone(), &what, base_url), rng, now)
        };
        domain::failpoint!("devices.approve");
        let approval = store.device_approve(&state.code, approver, agreed, notice, now, rng).await?;
        domain::failpoint!("devices.approved");
        match &approval {
            Ok(account) => {
                state.code.state = DeviceState::Claimed { account: account.clone(), at: now };
                tracing::info!(machine.uuid = %state.code.machine, approve.via = approver.via.as_str(), "a computer was attached");
            }
            // Another request was faster, perhaps on another node.
            Err(ApprovalRefusal::CodeConsumed) => self.reload(state).await?,
            Err(_) => {}
        }
        Ok(approval)
    }

    async fn deny(&self, denier: &Approver, state: &mut PollerState) -> Result<bool, InfraError> {
        let Dependencies { store, clock, .. } = &*self.dependencies;
        let is_denied = store.device_deny(&state.code.code, denier, clock.now()).await?;
        if is_denied {
            state.code.state = DeviceState::Denied;
            tracing::info!(machine.uuid = %state.code.machine, deny.via = denier.via.as_str(), "a computer was refused");
        } else {
            self.reload(state).await?;
        }
        Ok(is_denied)
    }

    /// The only write of a poll, once for each unanswered code: another node may be processing an approval.
    async fn expire(&self, state: &mut PollerState, now: Timestamp) -> Result<(), InfraError> {
        if self.dependencies.store.device_expire(&state.code.code, now).await? {
            state.code.state = DeviceState::Expired;
            return Ok(());
        }
        self.reload(state).await
    }

    async fn refresh(&self, state: &mut PollerState) {
        if let Err(error) = self.reload(state).await {
            tracing::warn!(machine.uuid = %state.code.machine, error = domain::reasons(&error), "a changed device code could not be read");
        }
    }

    async fn reload(&self, state: &mut PollerState) -> Result<(), InfraError> {
        if let Some(code) = self.dependencies.store.device_by_code(&state.code.code).await? {
            state.code = code;
            state.read_at = Instant::now();
        }
        Ok(())
    }
}
