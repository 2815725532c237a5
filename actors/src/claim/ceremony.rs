//! The actor behind one registration.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use domain::Timestamp;
use domain::claim::{Attempt, AttemptState, Claim, ClaimCode, ClaimGrant, Registration, WRONG_TRIES_MAX};
use domain::clock::{date_time, delta};
use domain::ids::{Email, RegistrationId, UserAccountId};
use domain::mail;
use domain::secret::{Secret, SecretHash, SecretKind};
use domain::token::TokenScope;
use store::claim::AttemptStart;
use supervision::{ActorError, Facts, KeyedActor, Reply, SelfRef};
use tokio::time::Instant;

use super::contract::{
    CompleteError, Confirmer, Dependencies, ExchangeError, StartError, StartedClaim, Tokens, draw_attempt,
};
use crate::infra_error::InfraError;
use crate::mail::queued;

const START_WINDOW: TimeDelta = TimeDelta::hours(1);

/// Age of the cached row after which a poll reads it again, in case a hint about a change was lost.
const READ_EVERY: Duration = Duration::from_secs(30);

/// The result of a request; the outer error is a failure of infrastructure.
type Outcome<T, E> = Result<Result<T, E>, InfraError>;

/// Sent by [`super::Claims`].
#[derive(Debug)]
pub enum ClaimMessage {
    /// Creates a new link and code; older ones stop working.
    Start {
        /// The address that may complete the claim, if the agent gives one.
        email: Option<Email>,
        /// The link's token and the code.
        reply: Reply<Outcome<StartedClaim, StartError>>,
    },
    /// A signed-in person completes the claim.
    Complete {
        /// The token in the link.
        attempt: SecretHash,
        /// The code that the person typed.
        code: ClaimCode,
        /// The person with account and credential.
        confirmer: Confirmer,
        /// Receives whether the claim is completed.
        reply: Reply<Outcome<(), CompleteError>>,
    },
    /// The agent polls with its claim token.
    ExchangeClaim {
        /// Tokens once a person confirmed.
        reply: Reply<Outcome<Tokens, ExchangeError>>,
    },
    /// The agent shows an assertion that was verified already.
    ExchangeAssertion {
        /// Tokens in the scope that the registration has now.
        reply: Reply<Outcome<Tokens, ExchangeError>>,
    },
    /// The owner, or an operator, ends it.
    Revoke {
        /// The only account that may revoke it; `None` permits any caller.
        owner: Option<UserAccountId>,
        /// Whether the registration belongs to `owner`.
        reply: Reply<Result<bool, InfraError>>,
    },
    /// The row may have changed elsewhere.
    Refresh,
}

/// The actor: wiring only.
#[derive(Debug, Clone)]
pub struct ClaimCeremony {
    dependencies: Arc<Dependencies>,
}

/// The cached row of the registration, with its newest attempt.
#[derive(Debug)]
pub struct CeremonyState {
    registration: Registration,
    /// The newest attempt, if a claim was ever started.
    attempt: Option<Attempt>,
    /// When both were last read.
    read_at: Instant,
}

impl ClaimCeremony {
    pub(super) fn new(dependencies: Arc<Dependencies>) -> Self {
        Self { dependencies }
    }
}

/// What an operator sees of a registration and its newest attempt: ids, states and times.
pub fn facts(registration: &Registration, attempt: Option<&Attempt>) -> Facts {
    let time = |at: Option<Timestamp>| at.map_or_else(|| "never".to_owned(), date_time);
    let mut facts = vec![
        ("registration_type", registration.registration_type.as_str().to_owned()),
        ("created_at", date_time(registration.created_at)),
        ("claim_token_expires_at", date_time(registration.claim_token_expires)),
        ("last_token_at", time(registration.last_token_at)),
        ("claimed_at", time(registration.claim.as_ref().map(|claim| claim.at))),
        ("revoked_at", time(registration.revoked_at)),
    ];
    if let Some(claim) = &registration.claim {
        facts.push(("account", claim.account.to_string()));
    }
    if let Some(attempt) = attempt {
        facts.push(("attempt_state", attempt.state.as_str().to_owned()));
        facts.push(("attempt_wrong_tries", attempt.wrong_tries.to_string()));
        facts.push(("attempt_expires_at", date_time(attempt.expires_at)));
    }
    facts
}

impl KeyedActor for ClaimCeremony {
    type Key = SecretHash;
    type Subject = RegistrationId;
    type Message = ClaimMessage;
    type Arguments = (Registration, Option<Attempt>);
    type State = CeremonyState;

    fn subject((registration, _): &(Registration, Option<Attempt>)) -> RegistrationId {
        registration.id
    }

    fn facts(CeremonyState { registration, attempt, read_at }: &CeremonyState) -> Facts {
        let mut facts = facts(registration, attempt.as_ref());
        facts.push(("row_read", format!("{} s ago", read_at.elapsed().as_secs())));
        facts
    }

    async fn start(
        &self,
        _myself: &SelfRef<Self>,
        (registration, attempt): (Registration, Option<Attempt>),
    ) -> Result<CeremonyState, ActorError> {
        Ok(CeremonyState { registration, attempt, read_at: Instant::now() })
    }

    async fn handle(
        &self,
        _myself: &SelfRef<Self>,
        message: ClaimMessage,
        state: &mut CeremonyState,
    ) -> Result<(), ActorError> {
        match message {
            ClaimMessage::Start { email, reply } => {
                reply.send(Box::pin(self.begin(email, state)).await);
            }
            ClaimMessage::Complete { attempt, code, confirmer, reply } => {
                reply.send(Box::pin(self.complete(attempt, &code, &confirmer, state)).await);
            }
            ClaimMessage::ExchangeClaim { reply } => {
                reply.send(self.exchange_claim(state).await);
            }
            ClaimMessage::ExchangeAssertion { reply } => {
                let scope = if state.registration.claim.is_some() { TokenScope::Account } else { TokenScope::Events };
                reply.send(Box::pin(self.issue(scope, state)).await);
            }
            ClaimMessage::Revoke { owner, reply } => {
                reply.send(Box::pin(self.revoke(owner, state)).await);
            }
            ClaimMessage::Refresh => Box::pin(self.refresh(state)).await,
        }
        Ok(())
    }
}

// Futures that query the store are boxed: nearly every message is a poll, and the future of a poll is as large as its largest branch.
impl ClaimCeremony {
    async fn exchange_claim(&self, state: &mut CeremonyState) -> Outcome<Tokens, ExchangeError> {
        domain::failpoint!("claims.exchange");
        let now = self.dependencies.clock.now();
        if state.registration.claim.is_none() && state.read_at.elapsed() >= READ_EVERY {
            // If the store fails, the cached row is used until the next read is due.
            state.read_at = Instant::now();
            Box::pin(self.refresh(state)).await;
        }
        match state.registration.claim_grant(state.attempt.as_ref(), now) {
            ClaimGrant::Pending => Ok(Err(ExchangeError::Pending)),
            ClaimGrant::Expired => Ok(Err(ExchangeError::Expired)),
            ClaimGrant::Invalid => Ok(Err(ExchangeError::Invalid)),
            ClaimGrant::Claimed(_) => Box::pin(self.issue(TokenScope::Account, state)).await,
        }
    }

    async fn begin(&self, email: Option<Email>, state: &mut CeremonyState) -> Outcome<StartedClaim, StartError> {
        let Dependencies { store, clock, rng, codes, settings, .. } = &*self.dependencies;
        let now = clock.now();
        let bound = match state.registration.start(email.as_ref(), now) {
            Ok(bound) => bound,
            Err(refusal) => return Ok(Err(refusal.into())),
        };
        let (started, attempt) = draw_attempt(&state.registration, bound, rng, codes, now);
        match store.attempt_start(&attempt, settings.starts_per_hour, START_WINDOW, now).await? {
            AttemptStart::Started => {
                state.attempt = Some(attempt);
                Ok(Ok(started))
            }
            AttemptStart::TooMany { retry_after } => {
                Ok(Err(StartError::TooMany { retry_after: retry_after.to_std().unwrap_or_default() }))
            }
            AttemptStart::Settled => {
                self.reload(state).await?;
                Ok(Err(StartError::Refused(domain::claim::AttemptRefusal::Settled)))
            }
        }
    }

    async fn complete(
        &self,
        token: SecretHash,
        code: &ClaimCode,
        confirmer: &Confirmer,
        state: &mut CeremonyState,
    ) -> Outcome<(), CompleteError> {
        let Dependencies { store, clock, rng, codes, base_url, .. } = &*self.dependencies;
        let now = clock.now();
        if state.attempt.as_ref().is_none_or(|attempt| attempt.token != token) {
            // The link is older, or another node has just created it.
            self.reload(state).await?;
        }
        let Some(attempt) = state.attempt.as_mut().filter(|attempt| attempt.token == token) else {
            return Ok(Err(CompleteError::Expired));
        };
        if state.registration.revoked_at.is_some() {
            return Ok(Err(CompleteError::Expired));
        }
        // The response to the completing request may have been lost.
        let repeated = |registration: &Registration, attempt: &Attempt| {
            let by = (&confirmer.account, confirmer.person);
            let is_repeated =
                registration.claim.as_ref().is_some_and(|claim| claim.is_repeated(attempt, (code, codes), by, now));
            if is_repeated { Ok(()) } else { Err(CompleteError::Expired) }
        };
        if state.registration.claim.is_some() {
            return Ok(repeated(&state.registration, attempt));
        }
        match attempt.complete(code, codes, &confirmer.email, now) {
            Ok(()) => {}
            Err(CompleteError::WrongCode) => {
                // The try is counted before the response, so that a restart in between gives no free try. `None`: another node has ended
                // the attempt.
                let counted = store.attempt_wrong_code(&token, WRONG_TRIES_MAX, now).await?;
                attempt.state = counted.unwrap_or(AttemptState::Burnt);
                return Ok(Err(if counted.is_some() { CompleteError::WrongCode } else { CompleteError::Expired }));
            }
            Err(refusal) => return Ok(Err(refusal)),
        }
        let claim = Claim {
            account: confirmer.account.clone(),
            person: confirmer.person,
            email: confirmer.email.clone(),
            rights: None,
            at: now,
        };
        let what = mail::Claimed {
            agent: state.registration.id,
            address: state.registration.ip_address.as_deref(),
            account: &claim.account,
            via: confirmer.via,
            at: now,
        };
        let notice = queued(mail::claimed(claim.email.clone(), &what, base_url), rng, now);
        domain::failpoint!("claims.complete");
        let won = store.attempt_complete(&token, &claim, confirmer.via, Some(&notice), now).await?;
        domain::failpoint!("claims.completed");
        self.reload(state).await?;
        if won {
            tracing::info!(registration.id = %state.registration.id, claim.via = confirmer.via.as_str(), "an agent was claimed");
        }
        let attempt = state.attempt.as_ref().filter(|attempt| attempt.token == token);
        Ok(match attempt {
            _ if won => Ok(()),
            Some(attempt) => repeated(&state.registration, attempt),
            None => Err(CompleteError::Expired),
        })
    }

    /// Issues an access token. The insert checks the state of the row, so a stale cache cannot grant too much.
    async fn issue(&self, scope: TokenScope, state: &mut CeremonyState) -> Outcome<Tokens, ExchangeError> {
        let Dependencies { store, clock, rng, keyring, settings, .. } = &*self.dependencies;
        let now = clock.now();
        let access_token = Secret::mint(SecretKind::AccessToken, rng);
        let expires = now + delta(settings.access_token_valid_for);
        if !store.token_issue(&access_token.hash(), state.registration.id, scope, now, expires).await? {
            self.reload(state).await?;
            return Ok(Err(ExchangeError::Invalid));
        }
        let assertion = match scope {
            TokenScope::Events => None,
            TokenScope::Account => Some(keyring.assert(&state.registration, settings, rng, now)?),
        };
        let expires_in = settings.access_token_valid_for.as_secs();
        Ok(Ok(Tokens { access_token, expires_in, scope, assertion }))
    }

    async fn revoke(&self, owner: Option<UserAccountId>, state: &mut CeremonyState) -> Result<bool, InfraError> {
        let Dependencies { store, clock, .. } = &*self.dependencies;
        let revoked = store.registration_revoke(state.registration.id, owner.as_ref(), clock.now()).await?;
        self.reload(state).await?;
        if revoked {
            tracing::info!(registration.id = %state.registration.id, "an agent was revoked");
        }
        Ok(revoked)
    }

    async fn refresh(&self, state: &mut CeremonyState) {
        if let Err(error) = self.reload(state).await {
            tracing::warn!(registration.id = %state.registration.id, error = domain::reasons(&error), "a changed registration could not be read");
        }
    }

    async fn reload(&self, state: &mut CeremonyState) -> Result<(), InfraError> {
        if let Some((registration, attempt)) = self.dependencies.store.registration_by_id(state.registration.id).await?
        {
            *state = CeremonyState { registration, attempt, read_at: Instant::now() };
        }
        Ok(())
    }
}
