//! Sign-in and sign-out of operators.

use ::api::connection::Peer;
use app::App;
use axum::Extension;
use axum::body::Bytes;
use axum::extract::{FromRequestParts, State};
use axum::http::header::SET_COOKIE;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::Digest;
use domain::secret::Secret;
use serde::Deserialize;

use super::sessions::{BrowserSession, COOKIE_NAME, ConsoleCredential, ConsoleOperator, LASTS};
use super::state::ConsoleState;
use super::view::{ConsoleQuery, SignInPage, Trouble};

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
pub struct AfterSignIn {
    next: Option<String>,
}

/// `GET /console/signin`: the form for the token, and a button for each provider.
pub async fn show(
    State(ConsoleState { app, .. }): State<ConsoleState>,
    ConsoleQuery(AfterSignIn { next }): ConsoleQuery<AfterSignIn>,
) -> Response {
    SignInPage::new(&app, own_path(next.as_deref()), None).shown(StatusCode::OK)
}

/// The form of the sign-in.
#[derive(Debug, Deserialize)]
pub struct SignIn {
    token: String,
    next: Option<String>,
}

/// `POST /console/signin`: starts a session for the operator with this token.
pub async fn sign_in(
    State(state): State<ConsoleState>,
    OwnPage(is_https): OwnPage,
    Extension(Peer(peer)): Extension<Peer>,
    bytes: Bytes,
) -> Result<Response, Trouble> {
    let SignIn { token, next } = serde_urlencoded::from_bytes(&bytes).map_err(|_| Trouble::unreadable())?;
    let next = own_path(next.as_deref());
    let presented = Secret::presented(token.trim()).hash();
    let digest = Digest::from(presented);
    if state.app.live.get().admin.operator_of_token(digest.as_bytes()).is_none() {
        return Ok(match state.limits.operator_failure(peer.address()) {
            Ok(()) => {
                SignInPage::new(&state.app, next, Some("No operator has this token.")).shown(StatusCode::FORBIDDEN)
            }
            Err(limited) => limited.into_response(),
        });
    }
    let mut response = Redirect::to(next).into_response();
    begin_session(&state, ConsoleCredential::Token(digest), is_https, &mut response);
    Ok(response)
}

/// A secret for a cookie or a form.
pub fn random(app: &App) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(app.rng.bytes::<32>())
}

/// Starts the session of an operator, and sets its cookie.
pub fn begin_session(
    ConsoleState { app, sessions, .. }: &ConsoleState,
    credential: ConsoleCredential,
    is_https: bool,
    response: &mut Response,
) {
    let (secret, csrf, signed_in_at) = (random(app), random(app), app.clock.now());
    sessions.add(
        Secret::presented(&secret).hash(),
        BrowserSession { credential, signed_in_at, is_https, csrf, flash: None },
    );
    set_cookie(response, (COOKIE_NAME, &secret), is_https, ("Strict", LASTS.num_seconds()));
}

/// `POST /console/signout`: ends the session.
pub async fn sign_out(
    State(ConsoleState { sessions, .. }): State<ConsoleState>,
    operator: ConsoleOperator,
    OwnPage(is_https): OwnPage,
) -> Response {
    sessions.end(&operator.id);
    let mut response = Redirect::to("/").into_response();
    set_cookie(&mut response, (COOKIE_NAME, ""), is_https, ("Strict", 0));
    response
}

/// Sets a cookie with its rule for requests of other sites, for some seconds.
pub fn set_cookie(response: &mut Response, (name, value): (&str, &str), is_https: bool, (rule, seconds): (&str, i64)) {
    let (prefix, secure) = if is_https { ("__Host-", "; Secure") } else { ("", "") };
    let line = format!("{prefix}{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite={rule}{secure}");
    // The value is base64url.
    if let Ok(line) = HeaderValue::from_str(&line) {
        response.headers_mut().append(SET_COOKIE, line);
    }
}
