//! The console: pages for operators with a browser (`docs/decisions/0045-console.md`).
//!
//! Every page reads the operator's API, and every change is one request to it, in the name of the signed-in operator. So roles, refusals and the
//! record of acts have one definition. Pages work without a script; a change is a question with a reason, then a form.

mod api;
mod deeds;
mod oidc;
mod pages;
mod question;
mod session;
mod sessions;
mod state;
mod view;

use std::sync::Arc;

use ::api::limits::RateLimiters;
use api::ConsoleApi;
use app::App;
use app::services::oidc::Providers;
use axum::Router;
use axum::extract::State;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;

use sessions::ConsoleSessions;
use state::ConsoleState;

/// The pages. `ops` is the operator's API.
pub fn router<S: Clone + Send + Sync + 'static>(
    app: &App,
    ops: Router,
    providers: &Arc<Providers>,
    limits: &Arc<RateLimiters>,
) -> Router<S> {
    let state = ConsoleState {
        app: app.clone(),
        api: ConsoleApi::new(ops),
        sessions: ConsoleSessions::default(),
        providers: Arc::clone(providers),
        limits: Arc::clone(limits),
    };
    Router::new()
        .route("/console", get(async || Redirect::to("/console/nodes")))
        .route("/console/", get(async || Redirect::to("/console/nodes")))
        .route("/console/signin", get(session::show).post(session::sign_in))
        .route(oidc::RETURN_PATH, get(oidc::enter).post(oidc::leave))
        .route("/console/signout", axum::routing::post(session::sign_out))
        .route("/console/nodes", get(pages::nodes::list))
        .route("/console/nodes/{node}", get(pages::actors::list))
        .route("/console/nodes/{node}/{actor}", get(pages::actors::show))
        .route("/console/keys", get(pages::keys::list))
        .route("/console/keys/{kind}/{key}", get(pages::keys::show))
        .route("/console/log", get(pages::log::show))
        .route("/console/held", get(pages::held::list))
        .route("/console/flow", get(pages::flow::list))
        .route("/console/webhooks", get(pages::webhooks::list))
        .route("/console/sessions", get(pages::sessions::list))
        .route("/console/settings", get(pages::settings::list))
        .route("/console/acts", get(pages::record::list))
        .route("/console/acts/{id}", get(pages::record::show))
        .route("/console/do/{deed}", get(question::ask).post(question::answer))
        .route("/console/{*rest}", get(async || view::Trouble::not_found("This page does not exist.")))
        .layer(from_fn_with_state(state.clone(), is_there))
        .with_state(state)
}

/// Without operators there is no console.
async fn is_there(
    State(state): State<ConsoleState>,
    request: axum::extract::Request,
    next: axum::middleware::Next,
) -> Response {
    let settings = state.app.live.get();
    if !settings.admin.has_console() {
        let text = "No operator has a token, or signs in at a provider. `attache admin token create` makes a token, with its lines for the configuration.";
        return view::Trouble::not_found(text).into_response();
    }
    next.run(request).await
}
