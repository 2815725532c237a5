//! Registration and claim of agents (`docs/protocol/agents.md#registration-states` and `docs/decisions/0005-agents.md`).
//!
//! HTTP calls [`Claims`]. Behind it, one [`ClaimCeremony`] for each registration with activity serialises the transitions of that
//! registration:
//!
//! 1. An agent registers: the row is committed before the response.
//! 2. The agent starts a claim and shows a person the link and the code. A newer link invalidates the older one.
//! 3. The agent polls with the claim grant. The ceremony answers from memory and reads the row again twice a minute.
//! 4. A signed-in person completes the claim. The store counts wrong codes; the last permitted one ends the attempt.
//! 5. The next exchange returns an account token and a fresh identity assertion.
//!
//! Every transition is a guarded write; the ceremony's memory is only a cache of the row, and the loser of a race reads the row again.
//! Changes by another node or an operator reach a running ceremony within a second through [`crate::watch`].
//!
//! **If it crashes:** the next message loads the row, which contains everything that was acknowledged.

mod ceremony;
mod contract;
mod keyring;
mod settings;

use std::sync::Arc;

use domain::claim::{AttemptRefusal, ClaimCode, Registration, RegistrationType};
use domain::clock::delta;
use domain::ids::{Email, RegistrationId, UserAccountId};
use domain::secret::{Secret, SecretHash, SecretKind};
use supervision::{ActorSettings, AskError, Directory, Reply, detached};

pub use ceremony::{ClaimCeremony, ClaimMessage, facts};
use contract::draw_attempt;
pub use contract::{
    AskResult, CompleteError, Confirmer, Dependencies, ExchangeError, Registered, RegisteredVariant, StartError,
    StartedClaim, Tokens,
};
pub use keyring::Keyring;
pub use settings::ClaimSettings;

use crate::infra_error::InfraError;
use crate::kind::ActorKind;

/// The address of all claim ceremonies.
pub type Ceremonies = Directory<ClaimCeremony>;

/// The operations on registrations and claims.
#[derive(Debug, Clone)]
pub struct Claims {
    ceremonies: Ceremonies,
    dependencies: Arc<Dependencies>,
}

impl Claims {
    /// Without actors until the root starts the family.
    pub fn new(dependencies: Dependencies, settings: &ActorSettings) -> Self {
        Self { ceremonies: Directory::new(ActorKind::Claims, settings), dependencies: Arc::new(dependencies) }
    }

    /// The addresses, for the supervisor.
    pub fn ceremonies(&self) -> &Ceremonies {
        &self.ceremonies
    }

    /// The actor that the family clones for each registration.
    pub fn prototype(&self) -> ClaimCeremony {
        ClaimCeremony::new(Arc::clone(&self.dependencies))
    }

    /// The keys of identity assertions.
    pub fn keyring(&self) -> &Keyring {
        &self.dependencies.keyring
    }

    /// Registers an agent: anonymously, or for the person with the address `login_hint` and with a claim already started.
    #[boxed]
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
            label: None,
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
    #[boxed]
    pub async fn start(&self, claim_token: &Secret, email: Option<Email>) -> AskResult<StartedClaim, StartError> {
        let response = self.by_claim_token(claim_token.hash(), |reply| ClaimMessage::Start { email, reply }).await?;
        Ok(response.unwrap_or(Err(StartError::Refused(AttemptRefusal::Expired))))
    }

    /// Exchanges a claim token.
    #[boxed]
    pub async fn exchange_claim(&self, claim_token: &Secret) -> AskResult<Tokens, ExchangeError> {
        let response = self.by_claim_token(claim_token.hash(), |reply| ClaimMessage::ExchangeClaim { reply }).await?;
        Ok(response.unwrap_or(Err(ExchangeError::Expired)))
    }

    /// Exchanges an identity assertion (RFC 7523).
    #[boxed]
    pub async fn exchange_assertion(&self, assertion: &str) -> AskResult<Tokens, ExchangeError> {
        let Dependencies { store, clock, keyring, .. } = &*self.dependencies;
        let Ok(claims) = keyring.current().verify(assertion, clock.now()) else {
            return Ok(Err(ExchangeError::Invalid));
        };
        let Some((registration, _)) = store.registration_by_id(claims.sub).await? else {
            return Ok(Err(ExchangeError::Invalid));
        };
        let ask = |reply| ClaimMessage::ExchangeAssertion { reply };
        let response = self.by_claim_token(registration.claim_token, ask).await?;
        Ok(response.unwrap_or(Err(ExchangeError::Invalid)))
    }

    /// Completes a claim with the code that the agent showed.
    #[boxed]
    pub async fn complete(
        &self,
        attempt_token: &Secret,
        code: ClaimCode,
        confirmer: Confirmer,
    ) -> AskResult<(), CompleteError> {
        let store = &self.dependencies.store;
        let attempt = attempt_token.hash();
        let Some(owner) = store.attempt_owner(&attempt).await? else { return Ok(Err(CompleteError::Expired)) };
        let Some((registration, _)) = store.registration_by_id(owner).await? else {
            return Ok(Err(CompleteError::Expired));
        };
        let ask = |reply| ClaimMessage::Complete { attempt, code, confirmer, reply };
        let response = self.by_claim_token(registration.claim_token, ask).await?;
        Ok(response.unwrap_or(Err(CompleteError::Expired)))
    }

    /// Revokes an agent permanently, with everything that it confirmed. `owner`: revoke only if this account owns it; returns whether it
    /// existed.
    #[boxed]
    pub async fn revoke(&self, id: RegistrationId, owner: Option<UserAccountId>) -> Result<bool, InfraError> {
        let Some((registration, _)) = self.dependencies.store.registration_by_id(id).await? else { return Ok(false) };
        let ask = |reply| ClaimMessage::Revoke { owner, reply };
        Ok(self.by_claim_token(registration.claim_token, ask).await?.unwrap_or(false))
    }

    /// Makes a running ceremony read its row, which another process may have changed.
    pub fn hint(&self, claim_token: SecretHash) {
        self.ceremonies.hint(&claim_token, |_: Reply<()>| ClaimMessage::Refresh);
    }

    /// Returns `None` for an unknown claim token.
    async fn by_claim_token<T>(
        &self,
        claim_token: SecretHash,
        make: impl FnOnce(Reply<Result<T, InfraError>>) -> ClaimMessage,
    ) -> Result<Option<T>, InfraError> {
        let load = || self.dependencies.store.registration_by_claim_token(&claim_token);
        let deadline = self.ceremonies.ask_deadline();
        match self.ceremonies.ask(&claim_token, load, make, deadline).await {
            Ok(answer) => answer.map(Some),
            Err(AskError::Unknown) => Ok(None),
            Err(AskError::Load(error)) => Err(error.into()),
            Err(AskError::Unavailable(refusal)) => Err(refusal.into()),
        }
    }
}
