//! Signing in with an OpenID Connect provider (`docs/decisions/0007-sign-in-without-passwords.md`; OpenID Connect Core 1.0, section 3.1; RFC 7636).
//!
//! 1. The browser is redirected to the provider. A sealed cookie stores the state, the PKCE code verifier, and
//!    a nonce that the ID token will contain.
//! 2. The browser returns with a code. The state must match its cookie, which prevents login CSRF. Each
//!    errand is completed once: the store remembers it until it expires.
//! 3. We exchange the code for an identity token, signed by the provider for us and for this nonce.
//! 4. The token contains the time of the sign-in at the provider, which must be recent.
//! 5. Only an address that the provider reports as verified can sign in.

mod provider;

use axum::extract::State;
use axum::http::header::{LOCATION, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chrono::TimeDelta;
use domain::Timestamp;
use domain::secret::Secret;
use domain::signin::{Next, Via};
use serde::{Deserialize, Serialize};

pub use self::provider::{Denial, Provider, Providers};
use super::{NextQuery, OwnBrowser, entered, known, ours};
use crate::app::App;
use crate::http::client::ClientAddress;
use crate::http::named::Named;
use crate::web::cookie::Cookie;
use crate::web::visitor::quoted;
use crate::web::{PageError, PageQuery, PageResult, Shown};

/// What the browser keeps while its person is at the provider.
#[derive(Debug, Serialize, Deserialize)]
pub struct OidcState {
    /// At which provider.
    provider: String,
    /// What must come back.
    state: String,
    /// What must stand in the identity token.
    nonce: String,
    /// The key of the code.
    verifier: String,
    /// Where to go afterwards.
    next: Option<String>,
    /// Until when it may be completed.
    expires_at: Timestamp,
}

/// How long an errand is valid. The cookie expires earlier; the server enforces this limit on a client that keeps the cookie longer.
const ERRAND_TAKES: TimeDelta = TimeDelta::hours(1);

/// What the provider sends along.
#[derive(Debug, Deserialize)]
pub struct CallbackQuery {
    state: Option<String>,
    code: Option<String>,
    error: Option<String>,
}

/// `GET /signin/oidc/{name}`
pub async fn begin(
    State(app): State<App>,
    ClientAddress(address): ClientAddress,
    Named(name): Named,
    PageQuery(wish): PageQuery<NextQuery>,
) -> PageResult {
    app.limits.sign_in(address).map_err(|error| PageError::api(&app, &error))?;
    let next = ours(wish.next.as_deref());
    let refuse = |why| refused(&app, why, next.as_ref());
    let provider = app.providers.named(&name).ok_or_else(|| refuse(Denial::Unknown))?;
    let random = || BASE64_URL_SAFE_NO_PAD.encode(app.rng.bytes::<32>());
    let errand = OidcState {
        provider: name,
        state: random(),
        nonce: random(),
        verifier: random(),
        next: next.as_ref().map(|next| next.as_str().to_owned()),
        expires_at: app.clock.now() + ERRAND_TAKES,
    };
    let url = provider.authorize(&errand).await.map_err(refuse)?;
    let location = HeaderValue::from_str(&url).map_err(|_| refuse(Denial::Away))?;
    let mut response = (StatusCode::FOUND, [(LOCATION, location)]).into_response();
    let kept = serde_json::to_vec(&errand).unwrap_or_default();
    Cookie::Provider.set(&mut response, &BASE64_URL_SAFE_NO_PAD.encode(kept), &app);
    Ok(response)
}

/// `GET /signin/oidc/{name}/callback`
pub async fn callback(
    State(app): State<App>,
    ClientAddress(address): ClientAddress,
    OwnBrowser(browser): OwnBrowser,
    Named(name): Named,
    headers: HeaderMap,
    PageQuery(returned): PageQuery<CallbackQuery>,
) -> PageResult {
    app.limits.sign_in(address).map_err(|error| PageError::api(&app, &error))?;
    let provider = app.providers.named(&name).ok_or_else(|| denied(&app, Denial::Unknown))?;
    let errand = errand(&headers, &app).filter(|errand| errand.provider == name);
    let own = errand.filter(|errand| returned.state.as_deref() == Some(&errand.state));
    let Some(errand) = own else { return Err(denied(&app, Denial::NotStartedHere)) };
    // Valid for one return only, whether the sign-in succeeds or fails.
    if !first_return(&errand, &app).await? {
        return Err(done(&app, denied(&app, Denial::NotStartedHere)));
    }
    let identified = match (returned.code, returned.error) {
        (Some(code), None) => provider.identify(code, &errand).await,
        (_, Some(error)) => {
            tracing::info!(oidc.provider = name, oidc.error = plain(&error), "a provider signed nobody in");
            Err(Denial::Refused)
        }
        (None, None) => Err(Denial::NotStartedHere),
    };
    let next: Option<Next> = ours(errand.next.as_deref());
    let email = identified.map_err(|why| done(&app, refused(&app, why, next.as_ref())))?;
    let entering = app.signins.enter(email.clone(), Via::Oidc(name), browser).await;
    let session = entering.map_err(PageError::of(&app))?;
    let mut response = entered(&app, &session, next);
    known::remember(&mut response, &headers, &email, &app);
    Cookie::Provider.clear(&mut response, &app);
    Ok(response)
}

fn errand(headers: &HeaderMap, app: &App) -> Option<OidcState> {
    let kept = Cookie::Provider.read(headers, app)?;
    let errand: OidcState = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(kept.expose()).ok()?).ok()?;
    (errand.expires_at > app.clock.now()).then_some(errand)
}

/// Whether this is the first return with this errand.
async fn first_return(errand: &OidcState, app: &App) -> Result<bool, PageError> {
    let (store, expires_at) = (app.store.clone(), errand.expires_at);
    let hash = Secret::presented(&errand.state).hash();
    let used = actors::detached(async move { store.signin_errand_use(&hash, expires_at).await }).await;
    used.map_err(PageError::of(app))?.map_err(PageError::store(app))
}

/// A provider's word as it may stand in a log.
fn plain(error: &str) -> &str {
    let word = error.len() <= 64 && error.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if word { error } else { "unreadable" }
}

fn done(app: &App, page_error: PageError) -> PageError {
    let mut response: Response = page_error.into_response();
    Cookie::Provider.clear(&mut response, app);
    PageError::from(response)
}

fn denied(app: &App, why: Denial) -> PageError {
    refused(app, why, None)
}

/// Whoever tries again is still on the way to `wish`.
fn refused(app: &App, why: Denial, wish: Option<&Next>) -> PageError {
    let (status, title, text, next) = match why {
        Denial::Unknown => (
            StatusCode::NOT_FOUND,
            "There is no such sign-in",
            "This link names a sign-in service that is not set up here.",
            "Sign in another way.",
        ),
        Denial::NotStartedHere => (
            StatusCode::BAD_REQUEST,
            "This sign-in was not started here",
            "It took longer than ten minutes, was used already, or began in another browser. Nobody was signed in.",
            "Start again from our own page.",
        ),
        Denial::Refused => (
            StatusCode::FORBIDDEN,
            "You were not signed in",
            "The sign-in service did not confirm who you are, or you said no there.",
            "Try again, or let us mail you a code.",
        ),
        Denial::Unverified => (
            StatusCode::FORBIDDEN,
            "Your address is not confirmed there",
            "The sign-in service knows your e-mail address but never checked that it is yours. We take only addresses that it checked.",
            "Confirm the address there, or let us mail you a code.",
        ),
        Denial::Away => (
            StatusCode::FAILED_DEPENDENCY,
            "The sign-in service does not answer",
            "We could not talk to it, or did not understand its answer. Nobody was signed in.",
            "Try again in a minute, or let us mail you a code.",
        ),
    };
    let link = wish.map_or("/signin".into(), |wish| format!("/signin?next={}", quoted(wish.as_str())).into());
    let page_error = PageError::shown(app, None, status, Shown { title, text, next, link, label: "To the sign-in" });
    if why != Denial::Away {
        return page_error;
    }
    let mut response = page_error.into_response();
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("30"));
    PageError::from(response)
}
