//! The requests and outcomes of device codes, and the dependencies of their actors.

use std::time::Duration;

use domain::agent_right::AgentRights;
use domain::api_key::KeyConsent;
use domain::consent::ConsentLevel;
use domain::device::UserCode;
use domain::ids::UserAccountId;
use domain::secret::{CodeKey, Secret, SecretHash};
use domain::{Clock, Rng};
use store::Store;
use store::device::AskingDevice;

use super::settings::DeviceSettings;
use crate::infra_error::InfraError;

/// The dependencies of every poller.
#[derive(Debug)]
pub struct Dependencies {
    /// The database of device codes.
    pub store: Store,
    /// The clock of the server.
    pub clock: Clock,
    /// The random generator of the server.
    pub rng: Rng,
    /// The server's key for short codes.
    pub codes: CodeKey,
    /// `[devices]`: limits of codes.
    pub settings: DeviceSettings,
    /// Valid API keys that one account may have (`api_keys.per_account_max`).
    pub keys_per_account_max: u32,
    /// Prefix of links in mails, without a slash at the end.
    pub base_url: String,
}

/// A code that was just made, with the secrets that are shown once.
#[derive(Debug)]
pub struct StartedDevice {
    /// The secret with which the computer polls.
    pub device_code: Secret,
    /// The code that its user types.
    pub user_code: UserCode,
}

/// Why no code was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The computer was detached during the request.
    #[error("the computer is not registered any more")]
    MachineGone,
    /// The computer reached `devices.codes_per_hour`.
    #[error("the computer asked for too many codes")]
    TooMany {
        /// Time until the next code is permitted.
        retry_after: Duration,
    },
    /// The agent in the request cannot be confirmed with the computer.
    #[error(transparent)]
    Agent(#[from] AgentRefusal),
}

/// Why an agent cannot be confirmed together with its computer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AgentRefusal {
    /// No registration has this id and this claim token.
    #[error("no registration has this id and claim token")]
    Unknown,
    /// The registration is for one person, who confirms it with its own link.
    #[error("the registration is for one person: start a claim for it")]
    NotAnonymous,
    /// The registration is claimed or revoked.
    #[error("the registration is claimed or revoked already")]
    Settled,
    /// The claim token has expired.
    #[error("the claim token has expired: register the agent again")]
    Expired,
}

/// Consents of a person in addition to the attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extras {
    /// Scopes of the key that the computer requests; without any, no key is created.
    pub key: KeyConsent,
    /// The agent in the request is confirmed, with these rights.
    pub agent: Option<AgentRights>,
    /// How much may be recorded; `None` changes no level.
    pub consent: Option<ConsentLevel>,
}

/// A computer that was attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovedDevice {
    /// The account that it is attached to.
    pub account: UserAccountId,
    /// SHA-256 of the claim token of the agent that was confirmed with it.
    pub agent: Option<SecretHash>,
}

/// The response to a poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Poll {
    /// No person has approved or denied yet; poll again after the interval.
    Pending,
    /// The poll was too early; poll again after the new interval.
    SlowDown {
        /// The new interval in seconds.
        interval: u32,
    },
    /// The computer is attached to this account.
    Claimed(UserAccountId),
    /// A person denied.
    Denied,
    /// The code has expired, was superseded, or is unknown.
    Expired,
}

/// The result of a lookup by user code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeLookup {
    /// The computer that shows this code.
    Asking(Box<AskingDevice>),
    /// No computer has this code.
    Wrong,
    /// The person entered too many wrong codes.
    Blocked,
}

/// The result of a request; the outer error is a failure of infrastructure.
pub type AskResult<T, E> = Result<Result<T, E>, InfraError>;
