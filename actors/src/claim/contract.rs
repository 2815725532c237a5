//! The requests and outcomes of claims, and the dependencies of their actors.

use std::time::Duration;

use chrono::TimeDelta;
use domain::claim::{ATTEMPT_SECONDS, Attempt, AttemptRefusal, AttemptState, ClaimCode, Registration};
use domain::confirm::ConfirmedVia;
use domain::ids::{Email, PersonId, RegistrationId, UserAccountId};
use domain::secret::{CodeKey, Secret, SecretKind};
use domain::token::TokenScope;
use domain::{Clock, Rng, Timestamp};
use store::Store;

use super::keyring::Keyring;
use super::settings::ClaimSettings;
use crate::infra_error::InfraError;

/// The dependencies of every ceremony.
#[derive(Debug)]
pub struct Dependencies {
    /// The database of registrations and attempts.
    pub store: Store,
    /// The clock of the server.
    pub clock: Clock,
    /// The random generator of the server.
    pub rng: Rng,
    /// The server's key for short codes.
    pub codes: CodeKey,
    /// The keys of identity assertions.
    pub keyring: Keyring,
    /// `[claims]`: lifetimes and limits.
    pub settings: ClaimSettings,
    /// Prefix of links in mails, without a slash at the end.
    pub base_url: String,
}

/// A registration that was just made, with the secrets that are shown once.
#[derive(Debug)]
pub struct Registered {
    /// `registration_id`.
    pub id: RegistrationId,
    /// `claim_token`.
    pub claim_token: Secret,
    /// `claim_token_expires`.
    pub claim_token_expires: Timestamp,
    /// The part that depends on the type.
    pub variant: RegisteredVariant,
}

/// The part of a new registration that depends on its type.
#[derive(Debug)]
pub enum RegisteredVariant {
    /// An assertion for event-only access.
    Anonymous {
        /// The signed JWT, without account.
        identity_assertion: String,
    },
    /// A claim that is already started.
    ServiceAuth(StartedClaim),
}

/// A claim that waits for its person.
#[derive(Debug)]
pub struct StartedClaim {
    /// The token in the link.
    pub attempt_token: Secret,
    /// Six digits that the person types.
    pub user_code: ClaimCode,
}

/// The tokens that an exchange returns.
#[derive(Debug)]
pub struct Tokens {
    /// The bearer token (RFC 6750).
    pub access_token: Secret,
    /// Seconds until it expires.
    pub expires_in: u64,
    /// Operations that the access token permits.
    pub scope: TokenScope,
    /// With account scope: a fresh assertion and when it expires.
    pub assertion: Option<(String, Timestamp)>,
}

/// The person who confirms a claim, as the credential shows them.
#[derive(Debug, Clone)]
pub struct Confirmer {
    /// Id of the person.
    pub person: PersonId,
    /// The verified address of the person.
    pub email: Email,
    /// The account that the agent will act for.
    pub account: UserAccountId,
    /// The kind of credential, which is stored with the claim.
    pub via: ConfirmedVia,
}

/// Why a claim was not started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The state of the registration does not permit it.
    #[error(transparent)]
    Refused(#[from] AttemptRefusal),
    /// The registration reached `claims.starts_per_hour`.
    #[error("too many claims were started for this registration")]
    TooMany {
        /// Time until the next start is permitted.
        retry_after: Duration,
    },
}

/// Why a claim was not completed.
pub use domain::claim::CompleteRefusal as CompleteError;

/// Why an exchange returns no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// No person has confirmed yet; poll again after the interval.
    #[error("authorization_pending")]
    Pending,
    /// The token, the attempt or the claim has expired or ended.
    #[error("expired_token")]
    Expired,
    /// The token or assertion is not valid.
    #[error("invalid_grant")]
    Invalid,
}

/// The result of a request; the outer error is a failure of infrastructure.
pub type AskResult<T, E> = Result<Result<T, E>, InfraError>;

/// Draws a link and a code for a registration.
pub(super) fn draw_attempt(
    registration: &Registration,
    email: Option<Email>,
    rng: &Rng,
    codes: &CodeKey,
    now: Timestamp,
) -> (StartedClaim, Attempt) {
    let attempt_token = Secret::mint(SecretKind::ClaimAttempt, rng);
    let user_code = ClaimCode::draw(rng);
    let token = attempt_token.hash();
    let attempt = Attempt {
        token,
        registration: registration.id,
        sealed_code: codes.seal(token.as_bytes(), user_code.expose()),
        email,
        expires_at: now + TimeDelta::seconds(ATTEMPT_SECONDS),
        wrong_tries: 0,
        state: AttemptState::Live,
    };
    (StartedClaim { attempt_token, user_code }, attempt)
}
