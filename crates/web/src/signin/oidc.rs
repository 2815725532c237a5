//! Signing in with an OpenID Connect provider (`docs/decisions/0003-sign-in.md`; OpenID Connect Core 1.0, section 3.1; RFC 7636).
//!
//! 1. The browser is redirected to the provider. A sealed cookie stores the state, the PKCE code verifier, and
//!    a nonce that the ID token will contain.
//! 2. The browser returns with a code. The state must match its cookie, which prevents login CSRF. Each state is accepted once: the store
//!    keeps used ones until they expire.
//! 3. The server exchanges the code for an ID token, which the provider signed for this client and this nonce.
//! 4. The token contains the time of the sign-in at the provider, which must be recent.
//! 5. Only an address that the provider reports as verified can sign in.

use api::client::ClientAddress;
use api::cookie::Cookie;
use api::named::Named;
use app::services::oidc::{Denial, OidcState};
use axum::extract::State;
use axum::http::header::{LOCATION, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::signin::{ReturnPath, SignInMethod};
use serde::Deserialize;

use super::{NextQuery, OwnBrowser, SignInPages, entered, known, ours};
use crate::visitor::quoted;
use crate::{PageError, PageErrorTexts, PageQuery, PageResult};

/// The query of the redirect from the provider.
#[derive(Debug, Deserialize)]
pub struct CallbackQuery {
    state: Option<String>,
    code: Option<String>,
    error: Option<String>,
}

/// `GET /signin/oidc/{name}`
pub async fn begin(
    State(pages): State<SignInPages>,
    ClientAddress(address): ClientAddress,
    Named(name): Named,
    PageQuery(wish): PageQuery<NextQuery>,
) -> PageResult {
    pages.limits.sign_in(address).map_err(|error| PageError::api(&pages.site, &error))?;
    let next = ours(wish.next.as_deref());
    let refuse = |why| refused(&pages, why, next.as_ref());
    let provider = pages.providers.named(&name).ok_or_else(|| refuse(Denial::Unknown))?;
    let ports = &pages.site.ports;
    let errand = OidcState::begin(name, next.as_ref(), (&ports.clock, &ports.rng));
    let url = provider.authorize(&errand).await.map_err(refuse)?;
    let location = HeaderValue::from_str(&url).map_err(|_| refuse(Denial::Away))?;
    let mut response = (StatusCode::FOUND, [(LOCATION, location)]).into_response();
    let bytes = serde_json::to_vec(&errand).unwrap_or_default();
    pages.cookies.set(Cookie::Provider, &mut response, &BASE64_URL_SAFE_NO_PAD.encode(bytes));
    Ok(response)
}

/// `GET /signin/oidc/{name}/callback`
pub async fn callback(
    State(pages): State<SignInPages>,
    ClientAddress(address): ClientAddress,
    OwnBrowser(browser): OwnBrowser,
    Named(name): Named,
    headers: HeaderMap,
    PageQuery(returned): PageQuery<CallbackQuery>,
) -> PageResult {
    pages.limits.sign_in(address).map_err(|error| PageError::api(&pages.site, &error))?;
    let provider = pages.providers.named(&name).ok_or_else(|| denied(&pages, Denial::Unknown))?;
    let errand = errand(&headers, &pages).filter(|errand| errand.provider == name);
    let own = errand.filter(|errand| returned.state.as_deref() == Some(&errand.state));
    let Some(errand) = own else { return Err(denied(&pages, Denial::NotStartedHere)) };
    // Valid for one return only, whether the sign-in succeeds or fails.
    if !errand.use_once(&pages.site.ports).await.map_err(PageError::of(&pages.site))? {
        return Err(done(&pages, denied(&pages, Denial::NotStartedHere)));
    }
    let identified = match (returned.code, returned.error) {
        (Some(code), None) => provider.identify(code, &errand).await,
        (_, Some(error)) => {
            tracing::info!(oidc.provider = name, oidc.error = plain(&error), "a provider refused a sign-in");
            Err(Denial::Refused)
        }
        (None, None) => Err(Denial::NotStartedHere),
    };
    let next: Option<ReturnPath> = ours(errand.next.as_deref());
    let email = identified.map_err(|why| done(&pages, refused(&pages, why, next.as_ref())))?;
    if !pages.settings.admits(&email) {
        return Err(done(&pages, refused(&pages, Denial::NotAdmitted, next.as_ref())));
    }
    let entering = pages.signins.enter(email.clone(), SignInMethod::Oidc(name), browser).await;
    let session = entering.map_err(PageError::of(&pages.site))?;
    let mut response = entered(&pages, &session, next);
    known::remember(&mut response, &headers, &email, &pages);
    pages.cookies.clear(Cookie::Provider, &mut response);
    Ok(response)
}

fn errand(headers: &HeaderMap, pages: &SignInPages) -> Option<OidcState> {
    let cookie = pages.cookies.read(Cookie::Provider, headers)?;
    let errand: OidcState = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(cookie.expose()).ok()?).ok()?;
    errand.is_live(pages.site.ports.clock.now()).then_some(errand)
}

/// An error code of a provider, if it is safe for a log line.
fn plain(error: &str) -> &str {
    let word = error.len() <= 64 && error.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if word { error } else { "unreadable" }
}

fn done(pages: &SignInPages, page_error: PageError) -> PageError {
    let mut response: Response = page_error.into_response();
    pages.cookies.clear(Cookie::Provider, &mut response);
    PageError::from(response)
}

fn denied(pages: &SignInPages, why: Denial) -> PageError {
    refused(pages, why, None)
}

/// The error page. Its link leads back to the sign-in, and from there to `wish`.
fn refused(pages: &SignInPages, why: Denial, wish: Option<&ReturnPath>) -> PageError {
    let (status, title, text, next) = match why {
        Denial::Unknown => (
            StatusCode::NOT_FOUND,
            "There is no such sign-in",
            "This link names a sign-in service that is not configured.",
            "Sign in another way.",
        ),
        Denial::NotStartedHere => (
            StatusCode::BAD_REQUEST,
            "This sign-in was not started here",
            "It took longer than ten minutes, was used already, or began in another browser. You are not signed in.",
            "Start again from our own page.",
        ),
        Denial::Refused => (
            StatusCode::FORBIDDEN,
            "You were not signed in",
            "The sign-in service did not confirm your identity, or you declined there.",
            "Try again, or sign in with a code by mail.",
        ),
        Denial::Unverified => (
            StatusCode::FORBIDDEN,
            "Your address is not confirmed there",
            "The sign-in service has not verified your e-mail address. Only verified addresses are accepted.",
            "Verify the address there, or sign in with a code by mail.",
        ),
        Denial::NotAdmitted => (
            StatusCode::FORBIDDEN,
            "Your address may not sign in here",
            "The operator of this server admits addresses of certain domains only, and yours is in none of them.",
            "Sign in with another address, or ask the operator.",
        ),
        Denial::Away => (
            StatusCode::FAILED_DEPENDENCY,
            "The sign-in service does not answer",
            "We could not talk to it, or did not understand its response. You are not signed in.",
            "Try again in a minute, or sign in with a code by mail.",
        ),
    };
    let link = wish.map_or("/signin".into(), |wish| format!("/signin?next={}", quoted(wish.as_str())).into());
    let page_error =
        PageError::shown(&pages.site, None, status, PageErrorTexts { title, text, next, link, label: "Sign in" });
    if why != Denial::Away {
        return page_error;
    }
    let mut response = page_error.into_response();
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("30"));
    PageError::from(response)
}
