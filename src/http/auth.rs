//! Who is asking (`docs/protocol/authentication.md` and `docs/decisions/0004-one-credential-per-request.md` and `docs/decisions/0005-same-origin-rule-for-cookies.md`).
//!
//! A request has one credential: with an `Authorization` header the cookie is ignored. A handler that wants to know takes a
//! [`Caller`]; which kinds it can meet is the route table's to say, and everything else ends here with 401.

use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use chrono::TimeDelta;
use domain::Timestamp;
use domain::api_key::ApiKey;
use domain::held::MachineFacts;
use domain::ids::{Email, PersonId, RegistrationId, SessionId, UserAccountId};
use domain::secret::{Secret, SecretKind};
use domain::token::TokenScope;
use serde_json::json;
use store::session::SessionFacts;

use super::KNOWLEDGE_PREFIX;
use super::discovery::METADATA;
use super::error::{ApiError, Code};
use super::origin;
use crate::app::App;
use crate::web::cookie::Cookie;

/// A set of credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepts(u8);

impl Accepts {
    /// The route asks for none, and reads none.
    pub const NONE: Self = Self(0);
    /// `accountBearer`
    pub const ACCOUNT: Self = Self(1);
    /// `sessionCookie`
    pub const SESSION: Self = Self(2);
    /// `machineBearer`
    pub const MACHINE: Self = Self(4);
    /// `preClaimBearer`
    pub const PRE_CLAIM: Self = Self(8);
    /// A key of the knowledge API.
    pub const API_KEY: Self = Self(16);

    /// Either.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` are in here.
    pub const fn includes(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Whoever presented a credential that the route takes.
#[derive(Debug, Clone)]
pub enum Caller {
    /// A computer.
    Machine {
        /// What the store knows of it.
        facts: MachineFacts,
        /// Whether some of its events are held.
        has_held: bool,
    },
    /// An agent that acts for an account.
    Account {
        /// The account.
        account: UserAccountId,
        /// The agent.
        agent: RegistrationId,
        /// The person who claimed it.
        person: PersonId,
        /// That person's address.
        email: Email,
    },
    /// A signed-in browser.
    Session {
        /// The session.
        session: SessionId,
        /// When the person signed in.
        signed_in_at: Timestamp,
        /// The person.
        person: PersonId,
        /// Their verified address.
        email: Email,
        /// Their account, if they have one.
        account: Option<UserAccountId>,
    },
    /// An agent that nobody has claimed.
    PreClaim {
        /// The agent.
        agent: RegistrationId,
    },
    /// A program with a key of the knowledge API.
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

    /// The account, for what only a person may do.
    pub fn require_account(&self) -> Result<&UserAccountId, ApiError> {
        self.account().ok_or_else(|| ApiError::new(Code::AccountRequired))
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

impl FromRequestParts<App> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let accepts = parts.extensions.get::<Accepts>().copied().unwrap_or(Accepts::NONE);
        let challenge = Challenge { accepts, app };
        let caller = match Authorization::of(&parts.headers) {
            Authorization::Bearer(secret) => bearer(&secret, &challenge).await?,
            Authorization::Several => return Err(challenge.to(Code::Unauthorized)),
            // Browsers send the cookie everywhere: where it does not do, nobody presented it.
            Authorization::Nothing if accepts.includes(Accepts::SESSION) => {
                let secret = Cookie::Session.read(&parts.headers, app);
                let caller = session(&secret.ok_or_else(|| challenge.to_none())?, &challenge).await?;
                if !origin::allows_json(parts, app) {
                    return Err(Code::CrossSiteRequest.into());
                }
                caller
            }
            Authorization::Nothing | Authorization::Other => return Err(challenge.to_none()),
        };
        if accepts.includes(caller.kind()) { Ok(caller) } else { Err(challenge.to(Code::Unauthorized)) }
    }
}

/// RFC 6750, section 2.1.
async fn bearer(secret: &Secret, challenge: &Challenge<'_>) -> Result<Caller, ApiError> {
    let app = challenge.app;
    let refuse = |code| challenge.to(code);
    if secret.has_prefix(SecretKind::Machine) {
        let machine = app.lookup.machine(secret.hash()).await?;
        // The knowledge API knows keys and no computers.
        let knowledge = challenge.accepts.includes(Accepts::API_KEY);
        let unknown = if knowledge { Code::Unauthorized } else { Code::MachineUnknown };
        let machine = machine.ok_or_else(|| refuse(unknown))?;
        app.presence.seen(machine.facts.machine_uuid, machine.last_seen_at, app.clock.now());
        return Ok(Caller::Machine { facts: machine.facts, has_held: machine.has_held });
    }
    if secret.has_prefix(SecretKind::ApiKey) {
        return api_key(secret, app).await?.map(Caller::Key).ok_or_else(|| refuse(Code::Unauthorized));
    }
    if !secret.has_prefix(SecretKind::AccessToken) {
        return Err(refuse(Code::Unauthorized));
    }
    let token = app.store.token_by_hash(&secret.hash(), app.clock.now()).await?;
    let token = token.ok_or_else(|| refuse(Code::Unauthorized))?;
    match (token.scope, token.account, token.person) {
        (TokenScope::Events, ..) => Ok(Caller::PreClaim { agent: token.registration }),
        (TokenScope::Account, Some(account), Some((person, email))) => {
            Ok(Caller::Account { account, agent: token.registration, person, email })
        }
        (TokenScope::Account, ..) => Err(refuse(Code::Unauthorized)),
    }
}

/// What is known of a key that is still good; that it was used is written once a minute.
async fn api_key(secret: &Secret, app: &App) -> Result<Option<ApiKey>, ApiError> {
    const WRITTEN_EVERY: TimeDelta = TimeDelta::minutes(1);
    let now = app.clock.now();
    let Some(key) = app.store.api_key_by_hash(&secret.hash(), now).await? else { return Ok(None) };
    let unless_since = now - WRITTEN_EVERY;
    if key.last_used_at.is_none_or(|last| last <= unless_since) {
        let (store, id) = (app.store.clone(), key.id);
        actors::detached(async move { store.api_key_used(id, unless_since, now).await }).await??;
    }
    Ok(Some(key))
}

/// What the header `Authorization` of a request presents.
#[derive(Debug)]
pub enum Authorization {
    /// It is not there.
    Nothing,
    /// A token.
    Bearer(Secret),
    /// Something else, or no token behind the word.
    Other,
    /// It stands there more than once, and nobody knows which one was meant.
    Several,
}

impl Authorization {
    /// That of these headers.
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

async fn session(secret: &Secret, challenge: &Challenge<'_>) -> Result<Caller, ApiError> {
    let session = session_facts(secret, challenge.app).await?;
    let session = session.ok_or_else(|| challenge.to(Code::Unauthorized))?;
    Ok(Caller::Session {
        session: session.session,
        signed_in_at: session.created_at,
        person: session.person,
        email: session.email,
        account: session.account,
    })
}

/// What is known of a session that is still good; it lasts longer because it is used.
pub(crate) async fn session_facts(secret: &Secret, app: &App) -> Result<Option<SessionFacts>, ApiError> {
    /// A session that was prolonged less than this long ago is not written again.
    const SLIDE_AFTER: Duration = Duration::from_hours(1);
    let now = app.clock.now();
    let hash = secret.hash();
    let Some(session) = app.store.session_by_hash(&hash, now).await? else { return Ok(None) };
    let valid_for = app.settings.sessions.valid_for;
    if let Ok(left) = (session.expires_at - now).to_std()
        && left + SLIDE_AFTER < valid_for
    {
        let (store, expires_at) = (app.store.clone(), now + valid_for);
        actors::detached(async move { store.session_slide(&hash, expires_at, now).await }).await??;
    }
    Ok(Some(session))
}

/// What a route that takes these credentials says to whoever has none of them: 401 with the challenge of RFC 9728, section 5.1, which
/// names the metadata of the surface.
#[derive(Debug)]
pub struct Challenge<'h> {
    accepts: Accepts,
    app: &'h App,
}

impl<'h> Challenge<'h> {
    /// Of the knowledge API.
    pub fn for_key(app: &'h App) -> Self {
        Self { accepts: Accepts::API_KEY, app }
    }

    /// To whoever sent a credential that does not do (RFC 6750, section 3.1).
    pub fn to(&self, code: Code) -> ApiError {
        self.with(code, r#", error="invalid_token""#)
    }

    /// To whoever sent no token at all.
    fn to_none(&self) -> ApiError {
        self.with(Code::Unauthorized, "")
    }

    fn with(&self, code: Code, parameters: &str) -> ApiError {
        let metadata = if self.accepts.includes(Accepts::API_KEY) {
            format!("{}{METADATA}{}", self.app.rag_url, KNOWLEDGE_PREFIX.trim_end_matches('/'))
        } else {
            format!("{}{METADATA}", self.app.base_url)
        };
        let challenge = HeaderValue::from_str(&format!(r#"Bearer resource_metadata="{metadata}"{parameters}"#));
        ApiError::new(code).header(WWW_AUTHENTICATE, challenge.unwrap_or(HeaderValue::from_static("Bearer")))
    }
}

/// 401 on the account and agent API; `error` stands in the challenge only when a token was sent.
pub fn unauthorized(code: Code, token_sent: bool, app: &App) -> ApiError {
    let challenge = Challenge { accepts: Accepts::NONE, app };
    if token_sent { challenge.to(code) } else { challenge.to_none() }
}

/// Requires a recent sign-in for an effect that outlives the session, because a browser may be left unattended: 401 with
/// `reason: "sign_in_again"` and the challenge of RFC 9470, section 3. Only sessions are checked; other credentials are no sign-in.
pub fn require_recent_sign_in(caller: &Caller, app: &App) -> Result<(), ApiError> {
    let Caller::Session { signed_in_at, .. } = caller else { return Ok(()) };
    if app.is_recent_sign_in(*signed_in_at) {
        return Ok(());
    }
    let within = app.settings.signin.fresh_within.as_secs();
    let parameters = format!(r#", error="insufficient_user_authentication", max_age="{within}""#);
    let challenge = Challenge { accepts: Accepts::NONE, app };
    Err(challenge.with(Code::Unauthorized, &parameters).with("reason", json!("sign_in_again")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_token_is_read_whatever_the_case_of_its_scheme() {
        let token =
            |text: &'static str| bearer_token(&HeaderValue::from_static(text)).map(|token| token.expose().to_owned());
        assert_eq!(token("bearer  at_1 ").as_deref(), Some("at_1"));
        for wrong in ["", "Bearer", "Bearer ", "Basic at_1", "at_1"] {
            assert_eq!(token(wrong), None, "{wrong}");
        }
    }
}
