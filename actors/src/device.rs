//! Device codes: how a computer is attached to a person's account (`docs/protocol/computers.md#device-flow`,
//! `docs/decisions/0012-device-codes.md` and `docs/decisions/0009-order-of-approval-checks.md`; RFC 8628).
//!
//! [`DeviceCodes`] is what HTTP talks to; behind it lives one [`DevicePoller`] per device code that somebody polls or answers:
//!
//! 1. A registered computer asks for a code. The row is committed, the code that it had before is superseded, and only then answered.
//! 2. It shows its user a link and a user code, and polls with the device code. Polls are answered from the poller's memory, paced there;
//!    twice a minute the row is read again.
//! 3. A signed-in person types the user code, sees who asks, and approves or denies. Wrong codes are counted in the store.
//! 4. The approval attaches the computer in one guarded transaction; the next poll learns of it.
//! 5. A code that nobody answered ends when its computer next polls, in the store too, so that no later approval can undo what it
//!    was told.
//!
//! The poller's memory is a cache of the row and the pacing. Changes made elsewhere reach it within a second through [`crate::watch`].
//!
//! **If it crashes:** the next poll loads the row and goes on; the pacing begins anew, in the computer's favour.

mod poller;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use domain::device::{CODE_SECONDS, DeviceCode, DeviceState, GUESS_WINDOW, GUESSES_MAX, UserCode};
use domain::held::MachineFacts;
use domain::ids::{PersonId, UserAccountId};
use domain::secret::{CodeKey, Secret, SecretHash, SecretKind};
use domain::{Clock, Rng};
use store::Store;
use store::device::{ApprovalRefusal, Approver, AskingDevice, CodeEntry, DeviceStart, Guesser, NewDeviceCode};
use store::machine::AttachRefusal;

pub use poller::{DeviceMessage, DevicePoller};
pub use settings::DeviceSettings;

use crate::detached::detached;
use crate::directory::{AskError, Directory};
use crate::handle::Reply;
use crate::infra_error::InfraError;
use crate::settings::ActorSettings;

/// The address of all pollers.
pub type Pollers = Directory<DevicePoller>;

/// All user codes are sealed in one context, so that a typed one can be looked up.
const SEAL_CONTEXT: &[u8] = b"device user code";

/// The window of `devices.codes_per_hour`.
const CODES_WINDOW: TimeDelta = TimeDelta::hours(1);

/// What every poller works with.
#[derive(Debug)]
pub struct Dependencies {
    /// The rows.
    pub store: Store,
    /// Time.
    pub clock: Clock,
    /// Chance.
    pub rng: Rng,
    /// The server's key for short codes.
    pub codes: CodeKey,
    /// Limits.
    pub settings: DeviceSettings,
    /// What links in letters begin with.
    pub base_url: String,
}

/// A code that was just made, with the secrets that are shown once.
#[derive(Debug)]
pub struct StartedDevice {
    /// What the computer polls with.
    pub device_code: Secret,
    /// What its user types.
    pub user_code: UserCode,
}

/// Why no code is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The computer was detached meanwhile.
    #[error("the computer is not registered any more")]
    MachineGone,
    /// Too many codes of late.
    #[error("the computer asked for too many codes")]
    TooMany {
        /// When the next may be asked for.
        retry_after: Duration,
    },
}

/// What a poll gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Poll {
    /// Ask again after the interval.
    Pending,
    /// It came too early; ask again after the new interval.
    SlowDown {
        /// Seconds.
        interval: u32,
    },
    /// Attached to this account.
    Claimed(UserAccountId),
    /// A person said no.
    Denied,
    /// Over, superseded, or never known.
    Expired,
}

/// Why an approval or a denial does nothing; in the order in which it is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// No pending code.
    #[error("the code is expired, used, or unknown")]
    CodeConsumed,
    /// The computer is gone.
    #[error("the computer is not registered")]
    MachineNotRegistered,
    /// It is attached to another account.
    #[error("the computer is attached to another account")]
    MachineAlreadyClaimed,
    /// Its identity is another person's.
    #[error("the computer's identity belongs to another person's account")]
    CuidAlreadyClaimed,
    /// Its identity has no owner, and another computer registered under it first.
    #[error("another computer registered under the identity first")]
    NotTheFirst,
    /// Its identity was provisioned with an account of its own, and the person has another.
    #[error("the computer's identity has an account of its own, and you have another")]
    PersonBoundToOtherAccount,
    /// The person has no account.
    #[error("an account is needed")]
    AccountRequired,
}

/// What a person who typed a user code is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeLookup {
    /// A computer asks, or asked.
    Asking(Box<AskingDevice>),
    /// Nobody has this code.
    Wrong,
    /// Too many wrong codes of late.
    Blocked,
}

/// An answer of the law, or trouble on the way to it.
pub type AskResult<T, E> = Result<Result<T, E>, InfraError>;

/// What HTTP talks to.
#[derive(Debug, Clone)]
pub struct DeviceCodes {
    pollers: Pollers,
    dependencies: Arc<Dependencies>,
}

impl DeviceCodes {
    /// Before its family runs.
    pub fn new(dependencies: Dependencies, settings: &ActorSettings) -> Self {
        Self { pollers: Directory::new("devices", settings), dependencies: Arc::new(dependencies) }
    }

    /// The addresses, for the supervisor.
    pub fn pollers(&self) -> &Pollers {
        &self.pollers
    }

    /// The pattern from which the family makes pollers.
    pub fn prototype(&self) -> DevicePoller {
        DevicePoller::new(Arc::clone(&self.dependencies))
    }

    /// A computer asks to be attached.
    pub async fn start(
        &self,
        machine: &MachineFacts,
        ip_address: Option<String>,
    ) -> AskResult<StartedDevice, StartError> {
        /// Two codes of 20^8 are rarely equal, three times in a row never.
        const DRAWS: u32 = 3;
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
            let (store, codes_max, address) = (store.clone(), settings.codes_per_hour, ip_address.clone());
            let started = detached(async move {
                let new = NewDeviceCode { code: &code, sealed_user_code, ip_address: address.as_deref() };
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

    /// A computer polls.
    pub async fn poll(&self, device_code: &Secret) -> Result<Poll, InfraError> {
        let asked = self.by_code(device_code.hash(), |reply| DeviceMessage::Poll { reply }).await?;
        Ok(asked.transpose()?.unwrap_or(Poll::Expired))
    }

    /// A person typed a user code and wants to know who asks.
    pub async fn look(&self, user_code: &UserCode, person: PersonId) -> Result<CodeLookup, InfraError> {
        self.typed(user_code, Guesser { person, by_agent: false }).await
    }

    /// A person or an agent typed a user code in order to answer.
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

    /// A person approves: the computer is attached to their account.
    pub async fn approve(&self, user_code: &UserCode, approver: Approver) -> AskResult<UserAccountId, AnswerError> {
        let CodeLookup::Asking(asking) = self.answered(user_code, &approver).await? else {
            return Ok(Err(AnswerError::CodeConsumed));
        };
        let asked = self.by_code(asking.code.code, |reply| DeviceMessage::Approve { approver, reply }).await?;
        let approval = asked.transpose()?.unwrap_or(Err(ApprovalRefusal::CodeConsumed));
        Ok(approval.map_err(|refusal| match refusal {
            ApprovalRefusal::CodeConsumed => AnswerError::CodeConsumed,
            ApprovalRefusal::NotTheFirst => AnswerError::NotTheFirst,
            ApprovalRefusal::AccountRequired => AnswerError::AccountRequired,
            ApprovalRefusal::Attach(AttachRefusal::MachineNotRegistered) => AnswerError::MachineNotRegistered,
            ApprovalRefusal::Attach(AttachRefusal::MachineAlreadyClaimed) => AnswerError::MachineAlreadyClaimed,
            ApprovalRefusal::Attach(AttachRefusal::CuidAlreadyClaimed) => AnswerError::CuidAlreadyClaimed,
            ApprovalRefusal::Attach(AttachRefusal::PersonBoundToOtherAccount) => AnswerError::PersonBoundToOtherAccount,
        }))
    }

    /// A person denies: the computer is told so.
    pub async fn deny(&self, user_code: &UserCode, denier: Approver) -> AskResult<(), AnswerError> {
        let CodeLookup::Asking(asking) = self.answered(user_code, &denier).await? else {
            return Ok(Err(AnswerError::CodeConsumed));
        };
        let asked = self.by_code(asking.code.code, |reply| DeviceMessage::Deny { denier, reply }).await?;
        Ok(if asked.transpose()?.unwrap_or(false) { Ok(()) } else { Err(AnswerError::CodeConsumed) })
    }

    /// Tells a living poller that its row may have changed elsewhere.
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
        match self.pollers.ask(&code, load, make, self.pollers.settings().ask_deadline).await {
            Ok(answer) => Ok(Some(answer)),
            Err(AskError::Unknown) => Ok(None),
            Err(AskError::Load(error)) => Err(error.into()),
            Err(AskError::Unavailable(refusal)) => Err(refusal.into()),
        }
    }
}
