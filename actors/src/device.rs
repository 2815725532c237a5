//! Device codes: how a computer is attached to a person's account (`docs/protocol/computers.md#device-flow`,
//! `docs/decisions/0004-device-codes.md`; RFC 8628).
//!
//! HTTP calls [`DeviceCodes`]. It runs one [`DevicePoller`] for each device code that is polled or answered:
//!
//! 1. A registered computer requests a code. The new row is committed and the earlier code superseded before the response.
//! 2. The computer shows a link and a user code, and polls with the device code. The poller answers from memory, enforces the interval,
//!    and reads the row again twice a minute.
//! 3. A signed-in person types the user code, sees the request, and approves or denies it. The store counts wrong codes.
//! 4. The approval attaches the computer in one guarded transaction; the next poll returns it.
//! 5. An unanswered code expires at the next poll after its time; the poller also writes the expiry to the store, so that a late approval
//!    cannot contradict the response to that poll.
//!
//! The poller's memory is a cache of the row and the pacing. Changes made elsewhere reach it within a second through [`crate::watch`].
//!
//! **If it crashes:** the next poll loads the row; the pacing starts without a previous poll, which favours the computer.

mod contract;
mod poller;
mod settings;

use std::sync::Arc;

use chrono::TimeDelta;
use domain::api_key::KeyConsent;
use domain::claim::{AttemptRefusal, RegistrationType};
use domain::device::approval::ApprovalRefusal;
use domain::device::{
    CODE_SECONDS, DeviceCode, DeviceState, GUESS_WINDOW, GUESSES_MAX, UserCode, WantedAgent, WantedKey,
};
use domain::held::MachineFacts;
use domain::ids::PersonId;
use domain::secret::{Secret, SecretHash, SecretKind};
use store::api_key::KeyGrant;
use store::device::{Agreed, Approver, CodeEntry, DeviceStart, Guesser, NewDeviceCode};
use supervision::{ActorSettings, AskError, Directory, Reply, detached};

pub use contract::{
    AgentRefusal, ApprovedDevice, AskResult, CodeLookup, Dependencies, Extras, Poll, StartError, StartedDevice,
};
pub use poller::{DeviceMessage, DevicePoller, facts};
pub use settings::DeviceSettings;

use crate::infra_error::InfraError;
use crate::kind::ActorKind;

/// The address of all pollers.
pub type Pollers = Directory<DevicePoller>;

/// One context for all user codes, so that a typed code can be looked up.
const SEAL_CONTEXT: &[u8] = b"device user code";

const CODES_WINDOW: TimeDelta = TimeDelta::hours(1);

/// The operations on device codes.
#[derive(Debug, Clone)]
pub struct DeviceCodes {
    pollers: Pollers,
    dependencies: Arc<Dependencies>,
}

impl DeviceCodes {
    /// Without actors until the root starts the family.
    pub fn new(dependencies: Dependencies, settings: &ActorSettings) -> Self {
        Self { pollers: Directory::new(ActorKind::Devices, settings), dependencies: Arc::new(dependencies) }
    }

    /// The addresses, for the supervisor.
    pub fn pollers(&self) -> &Pollers {
        &self.pollers
    }

    /// The prototype that the family clones for each device code.
    pub fn prototype(&self) -> DevicePoller {
        DevicePoller::new(Arc::clone(&self.dependencies))
    }

    /// A computer requests a code; with `key` also an API key, and with `agent` the confirmation of an agent.
    #[boxed]
    pub async fn start(
        &self,
        machine: &MachineFacts,
        ip_address: Option<String>,
        key: Option<WantedKey>,
        agent: Option<WantedAgent>,
    ) -> AskResult<StartedDevice, StartError> {
        /// Two codes of 20^8 are rarely equal; three collisions in a row do not happen.
        const DRAWS: u32 = 3;
        if let Some(agent) = &agent
            && let Err(refusal) = self.check(agent).await?
        {
            return Ok(Err(refusal.into()));
        }
        for _ in 0..DRAWS {
            let Dependencies { store, clock, rng, codes, settings, .. } = &*self.dependencies;
            let (device_code, user_code, now) =
                (Secret::mint(SecretKind::DeviceCode, rng), UserCode::draw(rng), clock.now());
            let code = DeviceCode {
                code: device_code.hash(),
                machine: machine.machine_uuid,
                identity: machine.user_cuid.clone(),
                created_at: now,
                expires_at: now + TimeDelta::seconds(CODE_SECONDS),
                state: DeviceState::Pending,
            };
            let sealed_user_code = codes.seal(SEAL_CONTEXT, user_code.expose());
            let (store, codes_max) = (store.clone(), settings.codes_per_hour);
            let (address, key) = (ip_address.clone(), key.clone());
            let started = detached(async move {
                let (ip_address, key, agent) = (address.as_deref(), key.as_ref(), agent.as_ref());
                let new = NewDeviceCode { code: &code, sealed_user_code, ip_address, key, agent };
                store.device_start(&new, codes_max, CODES_WINDOW).await
            });
            match started.await?? {
                DeviceStart::Started { superseded } => {
                    if let Some(superseded) = superseded {
                        self.hint(superseded);
                    }
                    return Ok(Ok(StartedDevice { device_code, user_code }));
                }
                DeviceStart::UserCodeTaken => {}
                DeviceStart::MachineGone => return Ok(Err(StartError::MachineGone)),
                DeviceStart::TooMany { retry_after } => {
                    return Ok(Err(StartError::TooMany { retry_after: retry_after.to_std().unwrap_or_default() }));
                }
            }
        }
        Err(InfraError::Internal("no free user code was drawn".into()))
    }

    /// Whether the agent can be confirmed with its computer. The approval checks again that it is neither claimed nor revoked.
    async fn check(&self, agent: &WantedAgent) -> AskResult<(), AgentRefusal> {
        let Dependencies { store, clock, .. } = &*self.dependencies;
        let row = store.registration_by_claim_token(&agent.claim_token).await?;
        let Some((registration, _)) = row.filter(|(row, _)| row.id == agent.registration) else {
            return Ok(Err(AgentRefusal::Unknown));
        };
        if registration.registration_type != RegistrationType::Anonymous {
            return Ok(Err(AgentRefusal::NotAnonymous));
        }
        Ok(registration.start(None, clock.now()).map(drop).map_err(|refusal| match refusal {
            AttemptRefusal::Settled => AgentRefusal::Settled,
            AttemptRefusal::Expired => AgentRefusal::Expired,
            AttemptRefusal::EmailMismatch => AgentRefusal::NotAnonymous,
        }))
    }

    /// Answers a poll of the computer with this device code.
    #[boxed]
    pub async fn poll(&self, device_code: &Secret) -> Result<Poll, InfraError> {
        let response = self.by_code(device_code.hash(), |reply| DeviceMessage::Poll { reply }).await?;
        Ok(response.transpose()?.unwrap_or(Poll::Expired))
    }

    /// A person typed a user code; returns the computer that shows it.
    #[boxed]
    pub async fn look(&self, user_code: &UserCode, person: PersonId) -> Result<CodeLookup, InfraError> {
        self.typed(user_code, Guesser { person, by_agent: false }).await
    }

    /// Looks up the user code of a request to approve or deny.
    async fn answered(&self, user_code: &UserCode, approver: &Approver) -> Result<CodeLookup, InfraError> {
        let by_agent = approver.via.agent().is_some();
        self.typed(user_code, Guesser { person: approver.person, by_agent }).await
    }

    async fn typed(&self, user_code: &UserCode, guesser: Guesser) -> Result<CodeLookup, InfraError> {
        let Dependencies { store, clock, rng, codes, .. } = &*self.dependencies;
        let (store, now) = (store.clone(), clock.now());
        let (sealed, guess) = (codes.seal(SEAL_CONTEXT, user_code.expose()), rng.uuid_v7(now));
        let limit = (GUESSES_MAX, GUESS_WINDOW);
        let typed = detached(async move { store.device_typed(&sealed, guesser, guess, limit, now).await }).await??;
        Ok(match typed {
            CodeEntry::Found(asking) => CodeLookup::Asking(asking),
            CodeEntry::Wrong => CodeLookup::Wrong,
            CodeEntry::Blocked => CodeLookup::Blocked,
        })
    }

    /// A person approves: the computer is attached to the person's account, and the other consents take effect.
    #[boxed]
    pub async fn approve(
        &self,
        user_code: &UserCode,
        approver: Approver,
        extras: Extras,
    ) -> AskResult<ApprovedDevice, ApprovalRefusal> {
        let CodeLookup::Asking(asking) = self.answered(user_code, &approver).await? else {
            return Ok(Err(ApprovalRefusal::CodeConsumed));
        };
        let Dependencies { clock, rng, keys_per_account_max, .. } = &*self.dependencies;
        let consent = extras.key;
        let grant = || KeyGrant { id: rng.uuid_v7(clock.now()).into(), keys_max: *keys_per_account_max, consent };
        let agreed = Agreed {
            key: (consent != KeyConsent::default()).then(grant),
            agent: extras.agent,
            consent: extras.consent,
        };
        let response =
            self.by_code(asking.code.code, |reply| DeviceMessage::Approve { approver, agreed, reply }).await?;
        let approval = response.transpose()?.unwrap_or(Err(ApprovalRefusal::CodeConsumed));
        let agent = asking.agent.filter(|_| extras.agent.is_some()).and_then(|agent| agent.claim_token);
        Ok(approval.map(|account| ApprovedDevice { account, agent }))
    }

    /// A person denies: the next poll of the computer returns `Denied`.
    #[boxed]
    pub async fn deny(&self, user_code: &UserCode, denier: Approver) -> AskResult<(), ApprovalRefusal> {
        let CodeLookup::Asking(asking) = self.answered(user_code, &denier).await? else {
            return Ok(Err(ApprovalRefusal::CodeConsumed));
        };
        let response = self.by_code(asking.code.code, |reply| DeviceMessage::Deny { denier, reply }).await?;
        Ok(if response.transpose()?.unwrap_or(false) { Ok(()) } else { Err(ApprovalRefusal::CodeConsumed) })
    }

    /// Makes a running poller read its row, which another process may have changed.
    pub fn hint(&self, code: SecretHash) {
        self.pollers.hint(&code, |_: Reply<()>| DeviceMessage::Refresh);
    }

    /// `None`: no such device code.
    async fn by_code<T>(
        &self,
        code: SecretHash,
        make: impl FnOnce(Reply<T>) -> DeviceMessage,
    ) -> Result<Option<T>, InfraError> {
        let load = || self.dependencies.store.device_by_code(&code);
        match self.pollers.ask(&code, load, make, self.pollers.ask_deadline()).await {
            Ok(answer) => Ok(Some(answer)),
            Err(AskError::Unknown) => Ok(None),
            Err(AskError::Load(error)) => Err(error.into()),
            Err(AskError::Unavailable(refusal)) => Err(refusal.into()),
        }
    }
}
