//! Sign-in of operators at an OpenID provider (`docs/decisions/0045-console.md`; OpenID Connect Core 1.0, section 3.1).
//!
//! The form of the sign-in page starts it, so the address of that page is known: the provider redirects to the same one. This process
//! keeps the state of a sign-in in memory, for one return.

use ::api::connection::Peer;
use app::config::OperatorClaim;
use app::services::oidc::{Denial, OidcState, ProviderIdentity};
use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::HOST;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use domain::secret::Secret;
use serde::Deserialize;

use super::session::{OwnPage, begin_session, own_path, random, set_cookie};
use super::sessions::{ConsoleCredential, ProviderErrand, RETURN_COOKIE, RETURNS_WITHIN, presented};
use super::state::ConsoleState;
use super::view::{ConsoleQuery, OnwardPage, SignInPage, Trouble};

/// Path to which providers redirect.
pub const RETURN_PATH: &str = "/console/signin/oidc";

/// The form of a provider's button.
#[derive(Debug, Deserialize)]
pub struct ProviderChoice {
    provider: String,
    next: Option<String>,
}

/// The query of the redirect from the provider.
#[derive(Debug, Deserialize)]
pub struct ProviderReturn {
    state: Option<String>,
    code: Option<String>,
}

/// `POST /console/signin/oidc`: leads to a provider.
pub async fn leave(
    State(ConsoleState { app, sessions, providers, .. }): State<ConsoleState>,
    OwnPage(is_https): OwnPage,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, Trouble> {
    let ProviderChoice { provider, next } = serde_urlencoded::from_bytes(&bytes).map_err(|_| Trouble::unreadable())?;
    let is_offered = app.live.get().admin.providers().contains(provider.as_str());
    let own = providers.named(&provider).filter(|_| is_offered).ok_or_else(|| denied(Denial::Unknown))?;
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let scheme = if is_https { "https" } else { "http" };
    let state = OidcState::begin(provider, None, (&app.clock, &app.rng));
    let state = state.for_operator(format!("{scheme}://{host}{RETURN_PATH}"));
    let location = own.authorize(&state).await.map_err(denied)?;
    let secret = random(&app);
    let (next, begun_at) = (own_path(next.as_deref()).to_owned(), app.clock.now());
    sessions.leave(Secret::presented(&secret).hash(), ProviderErrand { state, next, is_https, begun_at });
    // A page leads on: browsers apply `form-action 'self'` to redirects of a form, too.
    let mut response = OnwardPage::new(location, "The provider asks who you are.").shown();
    // The return comes from the provider's site, so its cookie cannot be strict.
    set_cookie(&mut response, (RETURN_COOKIE, &secret), is_https, ("Lax", RETURNS_WITHIN.num_seconds()));
    Ok(response)
}

/// `GET /console/signin/oidc`: the return from the provider, which starts the session of the operator whom it names.
pub async fn enter(
    State(state): State<ConsoleState>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
    ConsoleQuery(returned): ConsoleQuery<ProviderReturn>,
) -> Result<Response, Trouble> {
    let secret = presented(&headers, RETURN_COOKIE).map(|(secret, _)| Secret::presented(secret).hash());
    let errand = secret.and_then(|secret| state.sessions.came_back(&secret, state.app.clock.now()));
    let own = errand.filter(|errand| returned.state.as_deref() == Some(&errand.state.state));
    let Some(ProviderErrand { state: signin, next, is_https, .. }) = own else {
        return Err(denied(Denial::NotStartedHere));
    };
    let provider = state.providers.named(&signin.provider).ok_or_else(|| denied(Denial::Unknown))?;
    let code = returned.code.ok_or_else(|| denied(Denial::Refused))?;
    let identity = provider.identity(code, &signin).await.map_err(denied)?;
    let Some(claim) = claim_of(&state, &signin.provider, &identity) else {
        tracing::info!(oidc.provider = signin.provider, "a person who is no operator signed in at the console");
        return Ok(match state.limits.operator_failure(peer.address()) {
            Ok(()) => {
                let text = "You signed in there, but no operator in the configuration is you. Ask an administrator for an [[admin.operator]] with your oidc.";
                SignInPage::new(&state.app, &next, Some(text)).shown(StatusCode::FORBIDDEN)
            }
            Err(limited) => limited.into_response(),
        });
    };
    // The browser sends no strict cookie with a redirect that began at the provider, so a page of ours leads on.
    let mut response = OnwardPage::new(next, "You are signed in.").shown();
    let credential = ConsoleCredential::Claim { claim, subject: identity.subject_hash };
    begin_session(&state, credential, is_https, &mut response);
    set_cookie(&mut response, (RETURN_COOKIE, ""), is_https, ("Lax", 0));
    Ok(response)
}

/// The claim of the operator that this person is; of several the one with the highest role.
fn claim_of(state: &ConsoleState, provider: &str, identity: &ProviderIdentity) -> Option<OperatorClaim> {
    let settings = state.app.live.get();
    let all = settings.admin.operator.iter();
    let own = all.filter_map(|operator| Some((operator.role, operator.oidc.as_ref()?)));
    let own = own.filter(|(_, oidc)| oidc.provider == provider && identity.has(&oidc.claim, &oidc.value));
    own.max_by_key(|(role, _)| *role).map(|(_, claim)| claim.clone())
}

fn denied(why: Denial) -> Trouble {
    let (status, text) = match why {
        Denial::Unknown => (StatusCode::NOT_FOUND, "No operator signs in at such a provider."),
        Denial::NotStartedHere => {
            let text = "This sign-in took longer than ten minutes, was used already, or began in another browser or at another server.";
            (StatusCode::BAD_REQUEST, text)
        }
        Denial::Refused | Denial::Unverified | Denial::NotAdmitted => (
            StatusCode::FORBIDDEN,
            "The provider did not confirm who you are, or you declined there. You are not signed in.",
        ),
        Denial::Away => {
            (StatusCode::FAILED_DEPENDENCY, "The provider does not answer, or not as it should. Try again in a minute.")
        }
    };
    Trouble::new(status, text)
}
