//! The state of the pages, and the operator of a request.

use std::convert::Infallible;
use std::sync::Arc;

use ::api::connection::Peer;
use ::api::limits::RateLimiters;
use app::App;
use app::services::oidc::Providers;
use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Redirect, Response};

use super::api::ConsoleApi;
use super::deeds::query;
use super::sessions::{ConsoleOperator, ConsoleSessions};

/// What the pages use.
#[derive(Debug, Clone)]
pub struct ConsoleState {
    /// The server of the pages.
    pub app: App,
    /// The operator's API.
    pub api: ConsoleApi,
    /// Sessions of this process.
    pub sessions: ConsoleSessions,
    /// The OpenID providers.
    pub providers: Arc<Providers>,
    /// Limits of failed sign-ins.
    pub limits: Arc<RateLimiters>,
}

impl FromRequestParts<ConsoleState> for ConsoleOperator {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &ConsoleState) -> Result<Self, Response> {
        let operator = <Self as OptionalFromRequestParts<ConsoleState>>::from_request_parts(parts, state).await;
        operator.unwrap_or_default().ok_or_else(|| {
            let next = parts.uri.path_and_query().map_or("", |path| path.as_str());
            Redirect::to(&sign_in_path(next)).into_response()
        })
    }
}

impl OptionalFromRequestParts<ConsoleState> for ConsoleOperator {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &ConsoleState) -> Result<Option<Self>, Infallible> {
        Ok(state.sessions.operator(&state.app, &parts.headers, Peer::in_extensions(&parts.extensions)))
    }
}

/// The sign-in, which leads to `next`, a page of the console.
fn sign_in_path(next: &str) -> String {
    format!("/console/signin?{}", query(&[("next", next)]))
}
