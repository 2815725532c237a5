//! Who looks at a page.

use axum::extract::FromRequestParts;
use axum::http::Method;
use axum::http::request::Parts;
use axum::http::uri::PathAndQuery;
use axum::response::{IntoResponse, Redirect, Response};
use domain::Timestamp;
use domain::ids::{Email, PersonId, SessionId, UserAccountId};
use domain::secret::SecretHash;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::PageError;
use super::cookie::Cookie;
use crate::app::App;
use crate::http::auth::session_facts;

/// Whoever it is.
#[derive(Debug, Clone)]
pub struct Visitor(pub Option<SignedIn>);

/// A signed-in person. Everyone else is sent to sign in, and comes back.
#[derive(Debug, Clone)]
pub struct SignedIn {
    /// The person.
    pub person: PersonId,
    /// Their verified address.
    pub email: Email,
    /// Their name, if it is known.
    pub name: Option<String>,
    /// Their account, if they have one.
    pub account: Option<UserAccountId>,
    /// When they signed in.
    pub signed_in_at: Timestamp,
    /// This browser, as its person's list names it.
    pub id: SessionId,
    /// SHA-256 of its session's secret.
    pub session: SecretHash,
}

impl FromRequestParts<App> for Visitor {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, PageError> {
        let Some(secret) = Cookie::Session.read(&parts.headers, app) else {
            return Ok(Self(None));
        };
        let session = session_facts(&secret, app).await.map_err(|error| PageError::api(app, &error))?;
        Ok(Self(session.map(|session| SignedIn {
            person: session.person,
            email: session.email,
            name: session.name,
            account: session.account,
            signed_in_at: session.created_at,
            id: session.session,
            session: secret.hash(),
        })))
    }
}

impl FromRequestParts<App> for SignedIn {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, PageError> {
        let Visitor(visitor) = Visitor::from_request_parts(parts, app).await?;
        visitor.ok_or_else(|| {
            // A form cannot be sent again after signing in, so its page is shown again instead.
            let path = parts.uri.path();
            let back = match parts.method {
                Method::GET => parts.uri.path_and_query().map_or(path, PathAndQuery::as_str),
                _ if path.starts_with("/account") => "/account",
                _ if path.starts_with("/knowledge") => "/knowledge",
                _ => path,
            };
            PageError::elsewhere(&sign_in_path(app, back))
        })
    }
}

/// Where to sign in, and come back to `next` afterwards.
pub fn sign_in_path(app: &App, next: &str) -> String {
    let root = app.root_path();
    format!("{root}/signin?next={}", quoted(next))
}

/// A form that asks for a recent sign-in was sent without one: sign in, and come back to `next`.
pub fn sign_in_again(app: &App, next: &str) -> Response {
    Redirect::to(&sign_in_path(app, next)).into_response()
}

/// A value in the query of a link.
pub fn quoted(value: &str) -> impl std::fmt::Display + '_ {
    utf8_percent_encode(value, NON_ALPHANUMERIC)
}
