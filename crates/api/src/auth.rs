//! The credential of a request (`docs/protocol/authentication.md` and `docs/decisions/0001-credentials.md`).
//!
//! A request has one credential: with an `Authorization` header the cookie is ignored. A handler gets it as a [`Caller`]; the route table
//! decides which kinds it accepts, and any other credential is refused with 401.

use std::sync::Arc;

use actors::InfraError;
use actors::lookup::MachineLookup;
use actors::presence::Presence;
use app::config::Urls;
use app::services::api_keys::ApiKeys;
use app::services::confirmation::{DecidesWith, DecisionRefusal, SignInAgain};
use app::services::sessions::Sessions;
use axum::extract::{FromRef, FromRequestParts};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use domain::agent_right::{AgentRight, AgentRights};
use domain::api_key::{ApiKey, ApiKeyScope};
use domain::held::MachineFacts;
use domain::ids::{Email, PersonId, RegistrationId, SessionId, UserAccountId};
use domain::secret::{Secret, SecretKind};
use domain::token::TokenScope;
use domain::{Clock, Timestamp};
use serde_json::json;
use store::Store;
use store::session::SessionFacts;

use super::accepts::Accepts;
use super::cookie::{Cookie, Cookies};
use super::error::{ApiError, Code};
use super::origin::{self, OriginPolicy};
use super::route::{KNOWLEDGE_PREFIX, RESOURCE_METADATA};

/// The party behind a credential that the route accepts.
#[derive(Debug, Clone)]
pub enum Caller {
    /// A computer, by its secret.
    Machine {
        /// The stored facts about the computer.
        facts: MachineFacts,
        /// Whether some of its events are held.
        has_held: bool,
    },
    /// An agent that acts for an account.
    Account {
        /// The account that the agent acts for.
        account: UserAccountId,
        /// The agent.
        agent: RegistrationId,
        /// The person who claimed it.
        person: PersonId,
        /// The verified e-mail address of that person.
        email: Email,
        /// Its rights; `None` for the rights of account bearers in the protocol.
        rights: Option<AgentRights>,
    },
    /// A signed-in browser, by its cookie.
    Session {
        /// The session.
        session: SessionId,
        /// When the person signed in.
        signed_in_at: Timestamp,
        /// The person who signed in.
        person: PersonId,
        /// The verified e-mail address of the person.
        email: Email,
        /// Their account, if they have one.
        account: Option<UserAccountId>,
    },
    /// An agent that is not claimed.
    PreClaim {
        /// The agent.
        agent: RegistrationId,
    },
    /// A program with an API key.
    Key(ApiKey),
}

impl Caller {
    /// The account that the caller belongs to.
    pub fn account(&self) -> Option<&UserAccountId> {
        match self {
            Self::Machine { facts, .. } => facts.account.as_ref(),
            Self::Account { account, .. } => Some(account),
            Self::Session { account, .. } => account.as_ref(),
            Self::PreClaim { .. } => None,
            Self::Key(key) => Some(&key.account),
        }
    }

    /// The account; the error `account_required` for a credential without one.
    pub fn require_account(&self) -> Result<&UserAccountId, ApiError> {
        self.account().ok_or_else(|| ApiError::new(Code::AccountRequired))
    }

    /// The person behind the credential, and the credential with which they decide. `None` for computers, unclaimed agents and API keys.
    pub fn decides(&self) -> Option<(PersonId, DecidesWith)> {
        match self {
            Self::Session { person, signed_in_at, .. } => {
                Some((*person, DecidesWith::Session { signed_in_at: *signed_in_at }))
            }
            Self::Account { person, agent, .. } => Some((*person, DecidesWith::Agent(*agent))),
            Self::Machine { .. } | Self::PreClaim { .. } | Self::Key(_) => None,
        }
    }

    /// Refuses an agent that lacks this right, for a member of a request that requires more rights than its route.
    pub fn require_right(&self, right: AgentRight) -> Result<(), ApiError> {
        match self {
            Self::Account { rights, .. } if !AgentRights::permit(*rights, right) => Err(lacks(right)),
            _ => Ok(()),
        }
    }

    /// Whether a route that accepts these credentials accepts the caller's.
    fn is_accepted(&self, accepts: Accepts) -> bool {
        let reads_account = matches!(self, Self::Key(key) if key.scopes.contains(&ApiKeyScope::Account));
        accepts.includes(self.kind()) || reads_account && accepts.includes(Accepts::ACCOUNT_KEY)
    }

    fn kind(&self) -> Accepts {
        match self {
            Self::Machine { .. } => Accepts::MACHINE,
            Self::Account { .. } => Accepts::ACCOUNT,
            Self::Session { .. } => Accepts::SESSION,
            Self::PreClaim { .. } => Accepts::PRE_CLAIM,
            Self::Key(_) => Accepts::API_KEY,
        }
    }
}

/// The refusal of an agent without a right (`docs/protocol/authentication.md#rights-of-agents`).
fn lacks(right: AgentRight) -> ApiError {
    ApiError::new(Code::InsufficientScope).with("right", json!(right.as_str()))
}

/// Finds the party behind the credential of a request.
#[derive(Debug)]
pub struct Authenticator {
    pub(super) clock: Clock,
    pub(super) store: Store,
    pub(super) lookup: MachineLookup,
    pub(super) presence: Presence,
    pub(super) sessions: Sessions,
    pub(super) api_keys: ApiKeys,
    pub(super) cookies: Arc<Cookies>,
    pub(super) origin: Arc<OriginPolicy>,
    pub(super) urls: Arc<Urls>,
}

impl<S: Send + Sync> FromRequestParts<S> for Caller
where
    Arc<Authenticator>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let accepts = parts.extensions.get::<Accepts>().copied().unwrap_or(Accepts::NONE);
        Arc::<Authenticator>::from_ref(state).caller(parts, accepts).await
    }
}

impl Authenticator {
    /// The party of a request; `accepts` are the credentials that the route accepts.
    async fn caller(&self, parts: &Parts, accepts: Accepts) -> Result<Caller, ApiError> {
        let challenge = Challenge { accepts, urls: &self.urls };
        let caller = match Authorization::of(&parts.headers) {
            Authorization::Bearer(secret) => self.bearer(&secret, &challenge).await?,
            Authorization::Several => return Err(challenge.to(Code::Unauthorized)),
            // Browsers send the cookie with every request: where the route does not accept it, it is not a credential.
            Authorization::Nothing if accepts.includes(Accepts::SESSION) => {
                let secret = self.cookies.read(Cookie::Session, &parts.headers);
                let caller = self.session(&secret.ok_or_else(|| challenge.to_none())?, &challenge).await?;
                if !origin::allows_json(parts, &self.origin) {
                    return Err(Code::CrossSiteRequest.into());
                }
                caller
            }
            Authorization::Nothing | Authorization::Other => return Err(challenge.to_none()),
        };
        if !caller.is_accepted(accepts) {
            return Err(challenge.to(Code::Unauthorized));
        }
        match &caller {
            Caller::Account { rights, .. } => match accepts.lacks(*rights) {
                Some(right) => Err(lacks(right)),
                None => Ok(caller),
            },
            _ => Ok(caller),
        }
    }

    /// The party of a bearer token (RFC 6750, section 2.1).
    async fn bearer(&self, secret: &Secret, challenge: &Challenge<'_>) -> Result<Caller, ApiError> {
        let refuse = |code| challenge.to(code);
        if secret.has_prefix(SecretKind::Machine) {
            return self.machine(secret, challenge).await;
        }
        if secret.has_prefix(SecretKind::ApiKey) {
            let key = self.api_keys.find(secret).await?;
            return key.map(Caller::Key).ok_or_else(|| refuse(Code::Unauthorized));
        }
        if !secret.has_prefix(SecretKind::AccessToken) {
            return Err(refuse(Code::Unauthorized));
        }
        let token = self.store.token_by_hash(&secret.hash(), self.clock.now()).await?;
        let token = token.ok_or_else(|| refuse(Code::Unauthorized))?;
        match (token.scope, token.account, token.person) {
            (TokenScope::Events, ..) => Ok(Caller::PreClaim { agent: token.registration }),
            (TokenScope::Account, Some(account), Some((person, email))) => {
                Ok(Caller::Account { account, agent: token.registration, person, email, rights: token.rights })
            }
            (TokenScope::Account, ..) => Err(refuse(Code::Unauthorized)),
        }
    }

    async fn machine(&self, secret: &Secret, challenge: &Challenge<'_>) -> Result<Caller, ApiError> {
        let machine = self.lookup.machine(secret.hash()).await?;
        // The knowledge API accepts no computers, so its refusal does not distinguish known from unknown ones.
        let is_knowledge = challenge.accepts.includes(Accepts::API_KEY);
        let unknown = if is_knowledge { Code::Unauthorized } else { Code::MachineUnknown };
        let machine = machine.ok_or_else(|| challenge.to(unknown))?;
        self.presence.seen(machine.facts.machine_uuid, machine.last_seen_at, self.clock.now());
        Ok(Caller::Machine { facts: machine.facts, has_held: machine.has_held })
    }

    async fn session(&self, secret: &Secret, challenge: &Challenge<'_>) -> Result<Caller, ApiError> {
        let session = self.sessions.find(secret).await?;
        let session = session.ok_or_else(|| challenge.to(Code::Unauthorized))?;
        Ok(Caller::Session {
            session: session.session,
            signed_in_at: session.created_at,
            person: session.person,
            email: session.email,
            account: session.account,
        })
    }

    /// The session of the browser that sent these headers, if it has a valid one.
    pub async fn visitor(&self, headers: &HeaderMap) -> Result<Option<(Secret, SessionFacts)>, InfraError> {
        let Some(secret) = self.cookies.read(Cookie::Session, headers) else { return Ok(None) };
        Ok(self.sessions.find(&secret).await?.map(|session| (secret, session)))
    }
}

/// The content of the header `Authorization` of a request.
#[derive(Debug)]
pub enum Authorization {
    /// The header is missing.
    Nothing,
    /// A bearer token.
    Bearer(Secret),
    /// Another scheme, or the scheme without a token.
    Other,
    /// The header occurs more than once, which is ambiguous.
    Several,
}

impl Authorization {
    /// Parses the header `Authorization` of these headers.
    pub fn of(headers: &HeaderMap) -> Self {
        let mut sent = headers.get_all(AUTHORIZATION).iter();
        match (sent.next(), sent.next()) {
            (None, _) => Self::Nothing,
            (Some(header), None) => bearer_token(header).map_or(Self::Other, Self::Bearer),
            (Some(_), Some(_)) => Self::Several,
        }
    }
}

fn bearer_token(header: &HeaderValue) -> Option<Secret> {
    let (scheme, token) = header.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| Secret::presented(token))
}

/// The refusal of a route that accepts these credentials: 401 with the challenge of RFC 9728, section 5.1, which names the metadata of
/// the surface.
#[derive(Debug)]
pub struct Challenge<'u> {
    accepts: Accepts,
    urls: &'u Urls,
}

impl<'u> Challenge<'u> {
    /// The challenge of the knowledge API.
    pub fn for_key(urls: &'u Urls) -> Self {
        Self { accepts: Accepts::API_KEY, urls }
    }

    /// The refusal for a client that sent an invalid credential (RFC 6750, section 3.1).
    pub fn to(&self, code: Code) -> ApiError {
        self.with(code, r#", error="invalid_token""#)
    }

    /// The refusal for a client that sent no token.
    fn to_none(&self) -> ApiError {
        self.with(Code::Unauthorized, "")
    }

    fn with(&self, code: Code, parameters: &str) -> ApiError {
        let metadata = if self.accepts.includes(Accepts::API_KEY) {
            format!("{}{RESOURCE_METADATA}{}", self.urls.rag, KNOWLEDGE_PREFIX.trim_end_matches('/'))
        } else {
            format!("{}{RESOURCE_METADATA}", self.urls.base)
        };
        let challenge = HeaderValue::from_str(&format!(r#"Bearer resource_metadata="{metadata}"{parameters}"#));
        ApiError::new(code).header(WWW_AUTHENTICATE, challenge.unwrap_or(HeaderValue::from_static("Bearer")))
    }
}

/// 401 on the account and agent API; the challenge contains `error` only if the client sent a token.
pub fn unauthorized(code: Code, token_sent: bool, urls: &Urls) -> ApiError {
    let challenge = Challenge { accepts: Accepts::NONE, urls };
    if token_sent { challenge.to(code) } else { challenge.to_none() }
}

/// A decision that requires a recent sign-in: 401 with `reason: "sign_in_again"` and the challenge of RFC 9470, section 3.
pub fn sign_in_again(SignInAgain { within }: SignInAgain, urls: &Urls) -> ApiError {
    let parameters = format!(r#", error="insufficient_user_authentication", max_age="{}""#, within.as_secs());
    let challenge = Challenge { accepts: Accepts::NONE, urls };
    challenge.with(Code::Unauthorized, &parameters).with("reason", json!("sign_in_again"))
}

/// The refusal of a decision by this credential.
pub fn decision_refused(refusal: DecisionRefusal, urls: &Urls) -> ApiError {
    match refusal {
        DecisionRefusal::SessionRequired => unauthorized(Code::Unauthorized, true, urls),
        DecisionRefusal::SignInAgain(again) => sign_in_again(again, urls),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_token_is_read_in_any_case_of_its_scheme() {
        let token =
            |text: &'static str| bearer_token(&HeaderValue::from_static(text)).map(|token| token.expose().to_owned());
        assert_eq!(token("bearer  at_1 ").as_deref(), Some("at_1"));
        for wrong in ["", "Bearer", "Bearer ", "Basic at_1", "at_1"] {
            assert_eq!(token(wrong), None, "{wrong}");
        }
    }
}
