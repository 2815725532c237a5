//! Registration and claim of agents (`docs/protocol/agents.md#registration-states` and `docs/decisions/0014-claims-of-agents.md`).
//!
//! [`Claims`] is what HTTP talks to; behind it lives one [`ClaimCeremony`] per registration that somebody is busy with, which
//! serialises whatever happens to it:
//!
//! 1. An agent registers: the row is committed, and only then answered.
//! 2. It starts a claim and shows a person the link and the code. A newer link kills the older one.
//! 3. It polls with the claim grant. Polls are answered from the ceremony's memory; twice a minute the row is read again.
//! 4. A signed-in person completes. Wrong codes are counted in the store, the last burns the attempt.
//! 5. The next exchange gives an account token and a fresh identity assertion.
//!
//! Every transition is a guarded write; the ceremony's memory is only a cache of the row, and whoever loses a race reads the row again.
//! Changes made elsewhere (another node, an operator) reach a living ceremony within a second through [`crate::watch`].
//!
//! **If it crashes:** the next message loads the row and goes on; nothing that was answered is lost.

mod ceremony;
mod keyring;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use domain::claim::{ATTEMPT_SECONDS, Attempt, Registration, RegistrationType, StartRefusal, UserCode};
use domain::confirm::ConfirmedVia;
use domain::ids::{Email, PersonId, RegistrationId, UserAccountId};
use domain::secret::{CodeKey, Secret, SecretHash, SecretKind};
use domain::token::TokenScope;
use domain::{Clock, Rng, Timestamp};
use store::Store;

pub use ceremony::{ClaimCeremony, ClaimMessage};
pub use keyring::Keyring;
pub use settings::ClaimSettings;

use crate::detached::detached;
use crate::directory::{AskError, Directory};
use crate::handle::Reply;
use crate::infra_error::InfraError;
use crate::settings::ActorSettings;

/// The address of all claim ceremonies.
pub type Ceremonies = Directory<ClaimCeremony>;

/// What every ceremony works with.
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
    /// The keys of identity assertions.
    pub keyring: Keyring,
    /// Lifetimes and limits.
    pub settings: ClaimSettings,
    /// What links in letters begin with.
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
    /// What goes with the type.
    pub variant: RegisteredVariant,
}

/// What a new registration has according to its type.
#[derive(Debug)]
pub enum RegisteredVariant {
    /// An assertion that opens event-only access.
    Anonymous {
        /// The JWT.
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
    /// The six digits.
    pub user_code: UserCode,
}

/// What an exchange gives.
#[derive(Debug)]
pub struct Tokens {
    /// The bearer token.
    pub access_token: Secret,
    /// Seconds until it expires.
    pub expires_in: u64,
    /// What it opens.
    pub scope: TokenScope,
    /// With account scope: a fresh assertion and when it expires.
    pub assertion: Option<(String, Timestamp)>,
}

/// The person who confirms a claim, as the credential shows them.
#[derive(Debug, Clone)]
pub struct Confirmer {
    /// Who.
    pub person: PersonId,
    /// Their verified address.
    pub email: Email,
    /// The account that the agent will act for.
    pub account: UserAccountId,
    /// With which credential; kept with the claim.
    pub via: ConfirmedVia,
}

/// Why a claim does not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The law says no.
    #[error(transparent)]
    Refused(#[from] StartRefusal),
    /// Too many starts of late.
    #[error("too many claims were started for this registration")]
    TooMany {
        /// When the next may be started.
        retry_after: Duration,
    },
}

/// Why a claim is not completed.
pub use domain::claim::CompleteRefusal as CompleteError;

/// Why an exchange gives no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// Ask again after the interval.
    #[error("authorization_pending")]
    Pending,
    /// The token, the attempt or the claim is over.
    #[error("expired_token")]
    Expired,
    /// Not a grant that counts.
    #[error("invalid_grant")]
    Invalid,
}

/// An answer of the law, or trouble on the way to it.
pub type AskResult<T, E> = Result<Result<T, E>, InfraError>;

/// What HTTP talks to.
#[derive(Debug, Clone)]
pub struct Claims {
    ceremonies: Ceremonies,
    dependencies: Arc<Dependencies>,
}

impl Claims {
    /// Before its family runs.
    pub fn new(dependencies: Dependencies, settings: &ActorSettings) -> Self {
        Self { ceremonies: Directory::new("claims", settings), dependencies: Arc::new(dependencies) }
    }

    /// The addresses, for the supervisor.
    pub fn ceremonies(&self) -> &Ceremonies {
        &self.ceremonies
    }

    /// The pattern from which the family makes ceremonies.
    pub fn prototype(&self) -> ClaimCeremony {
        ClaimCeremony::new(Arc::clone(&self.dependencies))
    }

    /// The keys of identity assertions.
    pub fn keyring(&self) -> &Keyring {
        &self.dependencies.keyring
    }

    /// Registers an agent: anonymously, or for the person behind `login_hint`, with a claim already started.
    pub async fn register(
        &self,
        login_hint: Option<Email>,
        ip_address: Option<String>,
    ) -> Result<Registered, InfraError> {
        let Dependencies { store, clock, rng, codes, keyring, settings, .. } = &*self.dependencies;
        let now = clock.now();
        let claim_token = Secret::mint(SecretKind::ClaimToken, rng);
        let service_auth = login_hint.is_some();
        let registration = Registration {
            id: rng.uuid_v7(now).into(),
            registration_type: if service_auth { RegistrationType::ServiceAuth } else { RegistrationType::Anonymous },
            login_hint: login_hint.clone(),
            claim_token: claim_token.hash(),
            claim_token_expires: now + delta(settings.claim_token_valid_for),
            created_at: now,
            ip_address,
            last_token_at: None,
            claim: None,
            revoked_at: None,
        };
        let (started, attempt) = if service_auth {
            let (started, attempt) = draw_attempt(&registration, login_hint, rng, codes, now);
            (Some(started), Some(attempt))
        } else {
            (None, None)
        };
        let registered = Registered {
            id: registration.id,
            claim_token,
            claim_token_expires: registration.claim_token_expires,
            variant: if let Some(started) = started {
                RegisteredVariant::ServiceAuth(started)
            } else {
                let (identity_assertion, _) = keyring.assert(&registration, settings, rng, now)?;
                RegisteredVariant::Anonymous { identity_assertion }
            },
        };
        let store = store.clone();
        detached(async move { store.registration_create(&registration, attempt.as_ref()).await }).await??;
        Ok(registered)
    }

    /// Starts a claim, or starts it again with a new link and code.
    pub async fn start(&self, claim_token: &Secret, email: Option<Email>) -> AskResult<StartedClaim, StartError> {
        let asked = self.by_claim_token(claim_token.hash(), |reply| ClaimMessage::Start { email, reply }).await?;
        Ok(asked.unwrap_or(Err(StartError::Refused(StartRefusal::Expired))))
    }

    /// Exchanges a claim token.
    pub async fn exchange_claim(&self, claim_token: &Secret) -> AskResult<Tokens, ExchangeError> {
        let asked = self.by_claim_token(claim_token.hash(), |reply| ClaimMessage::ExchangeClaim { reply }).await?;
        Ok(asked.unwrap_or(Err(ExchangeError::Expired)))
    }

    /// Exchanges an identity assertion (RFC 7523).
    pub async fn exchange_assertion(&self, assertion: &str) -> AskResult<Tokens, ExchangeError> {
        let Dependencies { store, clock, keyring, .. } = &*self.dependencies;
        let Ok(claims) = keyring.current().verify(assertion, clock.now()) else {
            return Ok(Err(ExchangeError::Invalid));
        };
        let Some((registration, _)) = store.registration_by_id(claims.sub).await? else {
            return Ok(Err(ExchangeError::Invalid));
        };
        let ask = |reply| ClaimMessage::ExchangeAssertion { reply };
        let asked = self.by_claim_token(registration.claim_token, ask).await?;
        Ok(asked.unwrap_or(Err(ExchangeError::Invalid)))
    }

    /// Completes a claim with the code that the agent showed.
    pub async fn complete(
        &self,
        attempt_token: &Secret,
        code: UserCode,
        confirmer: Confirmer,
    ) -> AskResult<(), CompleteError> {
        let store = &self.dependencies.store;
        let attempt = attempt_token.hash();
        let Some(owner) = store.attempt_owner(&attempt).await? else { return Ok(Err(CompleteError::Expired)) };
        let Some((registration, _)) = store.registration_by_id(owner).await? else {
            return Ok(Err(CompleteError::Expired));
        };
        let ask = |reply| ClaimMessage::Complete { attempt, code, confirmer, reply };
        let asked = self.by_claim_token(registration.claim_token, ask).await?;
        Ok(asked.unwrap_or(Err(CompleteError::Expired)))
    }

    /// Revokes an agent permanently, with everything that it confirmed. `owner`: only if it is this account's; returns whether it existed.
    pub async fn revoke(&self, id: RegistrationId, owner: Option<UserAccountId>) -> Result<bool, InfraError> {
        let Some((registration, _)) = self.dependencies.store.registration_by_id(id).await? else { return Ok(false) };
        let ask = |reply| ClaimMessage::Revoke { owner, reply };
        Ok(self.by_claim_token(registration.claim_token, ask).await?.unwrap_or(false))
    }

    /// Tells a living ceremony that its row may have changed elsewhere.
    pub fn hint(&self, claim_token: SecretHash) {
        self.ceremonies.hint(&claim_token, |_: Reply<()>| ClaimMessage::Refresh);
    }

    /// `None`: no such claim token.
    async fn by_claim_token<T>(
        &self,
        claim_token: SecretHash,
        make: impl FnOnce(Reply<Result<T, InfraError>>) -> ClaimMessage,
    ) -> Result<Option<T>, InfraError> {
        let load = || self.dependencies.store.registration_by_claim_token(&claim_token);
        let deadline = self.ceremonies.settings().ask_deadline;
        match self.ceremonies.ask(&claim_token, load, make, deadline).await {
            Ok(answer) => answer.map(Some),
            Err(AskError::Unknown) => Ok(None),
            Err(AskError::Load(error)) => Err(error.into()),
            Err(AskError::Unavailable(refusal)) => Err(refusal.into()),
        }
    }
}

/// Draws a link and a code for a registration.
fn draw_attempt(
    registration: &Registration,
    email: Option<Email>,
    rng: &Rng,
    codes: &CodeKey,
    now: Timestamp,
) -> (StartedClaim, Attempt) {
    let attempt_token = Secret::mint(SecretKind::ClaimAttempt, rng);
    let user_code = UserCode::draw(rng);
    let token = attempt_token.hash();
    let attempt = Attempt {
        token,
        registration: registration.id,
        sealed_code: codes.seal(token.as_bytes(), user_code.expose()),
        email,
        expires_at: now + TimeDelta::seconds(ATTEMPT_SECONDS),
        wrong_tries: 0,
        state: domain::claim::AttemptState::Live,
    };
    (StartedClaim { attempt_token, user_code }, attempt)
}

fn delta(duration: Duration) -> TimeDelta {
    TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX)
}
