//! Finds the person who looks at a page.

use std::sync::Arc;

use api::HttpState;
use api::auth::Authenticator;
use axum::extract::{FromRef, FromRequestParts};
use axum::http::Method;
use axum::http::request::Parts;
use axum::http::uri::PathAndQuery;
use axum::response::{IntoResponse, Redirect, Response};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::{Flash, PageError, SignedIn, Site};

/// The person who looks at a page, if signed in.
#[derive(Debug, Clone)]
pub struct Visitor(pub Option<SignedIn>);

impl FromRequestParts<HttpState> for Visitor {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, PageError> {
        let authenticator: Arc<Authenticator> = FromRef::from_ref(state);
        let flash: Flash = parts.extensions.get().cloned().unwrap_or_default();
        let facts = authenticator.visitor(&parts.headers).await.map_err(PageError::of(&Site::from_ref(state)))?;
        Ok(Self(facts.map(|(secret, session)| SignedIn {
            person: session.person,
            email: session.email,
            name: session.name,
            account: session.account,
            signed_in_at: session.created_at,
            id: session.session,
            session: secret.hash(),
            flash: flash.clone(),
        })))
    }
}

impl FromRequestParts<HttpState> for SignedIn {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, PageError> {
        let Visitor(visitor) = Visitor::from_request_parts(parts, state).await?;
        visitor.ok_or_else(|| {
            // A form cannot be sent again after signing in, so its page is shown again instead.
            let path = parts.uri.path();
            let back = match parts.method {
                Method::GET => parts.uri.path_and_query().map_or(path, PathAndQuery::as_str),
                _ if path.starts_with("/account") => "/account",
                _ if path.starts_with("/knowledge") => "/knowledge",
                _ => path,
            };
            PageError::elsewhere(&sign_in_path(&Site::from_ref(state), back))
        })
    }
}

/// Path of the sign-in page, which redirects to `next` afterwards.
pub fn sign_in_path(site: &Site, next: &str) -> String {
    let root = site.urls.root_path();
    format!("{root}/signin?next={}", quoted(next))
}

/// The response to a form without the required recent sign-in: a redirect to the sign-in page, which redirects to `next` afterwards.
pub fn sign_in_again(site: &Site, next: &str) -> Response {
    Redirect::to(&sign_in_path(site, next)).into_response()
}

/// A value in the query of a link.
pub fn quoted(value: &str) -> impl std::fmt::Display + '_ {
    utf8_percent_encode(value, NON_ALPHANUMERIC)
}
