//! Sessions of operators in a browser. They are kept in memory: a restart ends them, and each node has its own.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::api::connection::Peer;
use app::App;
use axum::Extension;
use axum::body::Bytes;
use axum::extract::{FromRequestParts, OptionalFromRequestParts, State};
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chrono::TimeDelta;
use domain::act::{ActAuthor, ActDoor};
use domain::operator::OperatorRole;
use domain::secret::{Secret, SecretHash};
use domain::{Digest, Timestamp};
use serde::Deserialize;

use super::ConsoleState;
use super::view::{PageQuery, SignInPage, Trouble};

/// Time after the sign-in at which a session ends.
const LASTS: TimeDelta = TimeDelta::hours(8);

/// Time after the sign-in within which an operator may do what needs the role `admin`.
const ADMINISTERS_FOR: TimeDelta = TimeDelta::minutes(15);

/// Maximum number of sessions; the oldest one ends.
const SESSIONS_MAX: usize = 256;

/// Name of the cookie; over https with the prefix `__Host-`.
const COOKIE_NAME: &str = "attache_operator";

/// The sessions of this process. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Sessions(Arc<Mutex<HashMap<SecretHash, Session>>>);

#[derive(Debug, Clone)]
struct Session {
    token: Digest,
    signed_in_at: Timestamp,
    is_https: bool,
    csrf: String,
    flash: Option<Flash>,
}

/// A message for the next page.
#[derive(Debug, Clone)]
pub struct Flash {
    /// The text.
    pub text: String,
    /// Label and address of the question that undoes the change.
    pub undo: Option<(String, String)>,
}

/// A signed-in operator. As an argument of a handler it redirects others to the sign-in.
#[derive(Debug, Clone)]
pub struct Operator {
    /// Name in the configuration.
    pub name: String,
    /// The rights.
    pub role: OperatorRole,
    /// Whether changes are offered: by the role, and with `admin.changes`.
    pub may_change: bool,
    /// Whether the sign-in is recent enough for what needs the role `admin`.
    pub is_fresh: bool,
    /// The secret that each form of the pages contains.
    pub csrf: String,
    /// The message for this page.
    pub flash: Option<Flash>,
    /// The browser's connection.
    pub peer: Peer,
    id: SecretHash,
}

impl Operator {
    /// The author of an act.
    pub fn author(&self) -> ActAuthor {
        let (operator, from) = (Some(self.name.clone()), Some(self.peer.0.address()));
        ActAuthor { operator, from, ..ActAuthor::at(ActDoor::Console) }
    }

    /// Whether a form comes from a page of this session.
    pub fn sent(&self, csrf: &str) -> bool {
        Secret::presented(&self.csrf).hash() == Secret::presented(csrf).hash()
    }
}

impl Sessions {
    fn locked(&self) -> MutexGuard<'_, HashMap<SecretHash, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, id: SecretHash, session: Session) {
        let mut sessions = self.locked();
        sessions.retain(|_, other| session.signed_in_at - other.signed_in_at < LASTS);
        if sessions.len() >= SESSIONS_MAX
            && let Some(oldest) = sessions.iter().min_by_key(|(_, session)| session.signed_in_at).map(|(id, _)| *id)
        {
            sessions.remove(&oldest);
        }
        sessions.insert(id, session);
    }

    /// Shows a message on the next page of this operator.
    pub fn tell(&self, operator: &Operator, flash: Flash) {
        if let Some(session) = self.locked().get_mut(&operator.id) {
            session.flash = Some(flash);
        }
    }

    /// The operator of a request, whose token the configuration still has.
    fn operator(&self, app: &App, headers: &HeaderMap, peer: Peer) -> Option<Operator> {
        let (secret, is_https) = presented(headers)?;
        let id = Secret::presented(secret).hash();
        let now = app.clock.now();
        let mut sessions = self.locked();
        let session = sessions.get_mut(&id)?;
        if session.is_https != is_https || now - session.signed_in_at >= LASTS {
            return None;
        }
        let settings = app.live.get();
        let own = settings.admin.operator_of_token(session.token.as_bytes())?;
        Some(Operator {
            name: own.name.clone(),
            role: own.role,
            may_change: own.role >= OperatorRole::Operate && settings.admin.changes,
            is_fresh: now - session.signed_in_at < ADMINISTERS_FOR,
            csrf: session.csrf.clone(),
            flash: session.flash.take(),
            peer,
            id,
        })
    }
}

/// The secret in the cookie, and whether its name is that of https. A name that occurs twice was set by another party too.
fn presented(headers: &HeaderMap) -> Option<(&str, bool)> {
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = values.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut own = pairs.filter_map(|(name, value)| {
        let is_https = name.strip_prefix("__Host-") == Some(COOKIE_NAME);
        (is_https || name == COOKIE_NAME).then_some((value, is_https))
    });
    let first = own.next()?;
    own.next().is_none().then_some(first)
}

/// A form that a page of this listener sent, and whether that page came over https. A browser also sends cookies with a foreign page's forms,
/// so a form of unknown origin is refused.
pub struct OwnPage(pub bool);

impl<S: Sync> FromRequestParts<S> for OwnPage {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Trouble> {
        let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let origin = header("origin").and_then(|origin| origin.split_once("://"));
        let is_own = |place: &str| header("host").is_some_and(|host| place.eq_ignore_ascii_case(host));
        let same_site = header("sec-fetch-site").is_none_or(|site| site == "same-origin");
        let own = origin.filter(|(_, place)| is_own(place) && same_site);
        own.map(|(scheme, _)| Self(scheme == "https")).ok_or_else(Trouble::foreign)
    }
}

impl FromRequestParts<ConsoleState> for Operator {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &ConsoleState) -> Result<Self, Response> {
        let operator = <Self as OptionalFromRequestParts<ConsoleState>>::from_request_parts(parts, state).await;
        operator.unwrap_or_default().ok_or_else(|| {
            let next = parts.uri.path_and_query().map_or("", |path| path.as_str());
            Redirect::to(&sign_in_path(next)).into_response()
        })
    }
}

impl OptionalFromRequestParts<ConsoleState> for Operator {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &ConsoleState) -> Result<Option<Self>, Infallible> {
        Ok(state.sessions.operator(&state.app, &parts.headers, Peer::in_extensions(&parts.extensions)))
    }
}

/// The sign-in, which leads to `next`, a page of the console.
pub fn sign_in_path(next: &str) -> String {
    format!("/console/signin?{}", super::view::query(&[("next", next)]))
}

/// A path of the console to which a sign-in or a change may lead.
pub fn own_path(path: Option<&str>) -> &str {
    let is_own = |path: &&str| {
        path.starts_with("/console/")
            && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
            && !path.contains("//")
    };
    path.filter(is_own).unwrap_or("/console/nodes")
}

/// The page after the sign-in.
#[derive(Debug, Deserialize)]
pub struct Next {
    next: Option<String>,
}

/// `GET /console/signin`
pub async fn show(PageQuery(Next { next }): PageQuery<Next>) -> Response {
    SignInPage::new(own_path(next.as_deref()), None).shown(StatusCode::OK)
}

/// The form of the sign-in.
#[derive(Debug, Deserialize)]
pub struct SignIn {
    token: String,
    next: Option<String>,
}

/// `POST /console/signin`: starts a session for the operator with this token.
pub async fn sign_in(
    State(ConsoleState { app, sessions, limits, .. }): State<ConsoleState>,
    OwnPage(is_https): OwnPage,
    Extension(Peer(peer)): Extension<Peer>,
    bytes: Bytes,
) -> Result<Response, Trouble> {
    let SignIn { token, next } = serde_urlencoded::from_bytes(&bytes).map_err(|_| Trouble::unreadable())?;
    let next = own_path(next.as_deref());
    let presented = Secret::presented(token.trim()).hash();
    let digest = Digest::from(presented);
    if app.live.get().admin.operator_of_token(digest.as_bytes()).is_none() {
        return Ok(match limits.operator_failure(peer.address()) {
            Ok(()) => SignInPage::new(next, Some("No operator has this token.")).shown(StatusCode::FORBIDDEN),
            Err(limited) => limited.into_response(),
        });
    }
    let random = || BASE64_URL_SAFE_NO_PAD.encode(app.rng.bytes::<32>());
    let (secret, csrf, signed_in_at) = (random(), random(), app.clock.now());
    let session = Session { token: digest, signed_in_at, is_https, csrf, flash: None };
    sessions.add(Secret::presented(&secret).hash(), session);
    let mut response = Redirect::to(next).into_response();
    set_cookie(&mut response, &secret, is_https, LASTS.num_seconds());
    Ok(response)
}

/// `POST /console/signout`: ends the session.
pub async fn sign_out(
    State(ConsoleState { sessions, .. }): State<ConsoleState>,
    operator: Operator,
    OwnPage(is_https): OwnPage,
) -> Response {
    sessions.locked().remove(&operator.id);
    let mut response = Redirect::to("/").into_response();
    set_cookie(&mut response, "", is_https, 0);
    response
}

fn set_cookie(response: &mut Response, value: &str, is_https: bool, seconds: i64) {
    let (prefix, secure) = if is_https { ("__Host-", "; Secure") } else { ("", "") };
    let line = format!("{prefix}{COOKIE_NAME}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    // The value is base64url.
    if let Ok(line) = HeaderValue::from_str(&line) {
        response.headers_mut().append(SET_COOKIE, line);
    }
}
