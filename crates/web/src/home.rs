//! `GET /` for browsers: a description of this server for visitors; a signed-in person is redirected to the account page.

use std::sync::Arc;

use api::HttpState;
use api::browser::PageFuture;
use app::config::SigninSettings;
use askama::Template;
use axum::extract::{FromRef, FromRequestParts};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Redirect, Response};

use super::{PageError, PageLayout, Site, Visitor, page};

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage<'u> {
    frame: PageLayout,
    base_url: &'u str,
    /// Whether a first sign-in creates an account.
    makes_accounts: bool,
}

/// The page, or a redirect.
pub(super) fn show(state: HttpState, parts: Parts) -> PageFuture {
    Box::pin(async move { shown(&state, parts).await.unwrap_or_else(IntoResponse::into_response) })
}

async fn shown(state: &HttpState, mut parts: Parts) -> Result<Response, PageError> {
    let site = Site::from_ref(state);
    let Visitor(visitor) = Visitor::from_request_parts(&mut parts, state).await?;
    if visitor.is_some() {
        return Ok(Redirect::to(&format!("{}/account", site.urls.root_path())).into_response());
    }
    let settings: Arc<SigninSettings> = FromRef::from_ref(state);
    let frame = PageLayout::new(&site, None);
    let makes_accounts = settings.create_account;
    Ok(page(StatusCode::OK, &HomePage { frame, base_url: &site.urls.base, makes_accounts }))
}
