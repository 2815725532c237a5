//! What clients and people find without having been told: the welcome, and what stands under `/.well-known`.

mod card;
mod oauth;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CACHE_CONTROL};
use axum::response::{IntoResponse, Redirect, Response};

pub use self::card::agent_card;
pub use self::oauth::{
    METADATA, Resources, authorization_server, knowledge_resource, knowledge_resource_at, protected_resource,
    protected_resource_at,
};
use super::error::ApiResult;
use crate::app::App;

/// `GET /`: a browser is led to its person's account; everybody else is told what this is and where to go.
pub async fn welcome(State(app): State<App>, headers: HeaderMap) -> Response {
    let accepts = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if accepts.contains("text/html") {
        return Redirect::to(&format!("{}/account", app.root_path())).into_response();
    }
    let url = &app.base_url;
    let text = format!(
        "attache is running.\n\n\
        Agents, begin here:        {url}/llms.txt\n\
        How to get a credential:   {url}/auth.md\n\
        The whole guide:           {url}/llms-full.txt\n\n\
        Agents register:           POST {url}/api/v1/agent-auth/identity\n\
        Computers register:        POST {url}/api/v1/machines\n\
        Computers are attached:    POST {url}/api/v1/device/code\n\
        People sign in:            {url}/signin\n\
        Events are sent:           POST {url}/api/v1/events\n\
        Event types are listed:    {url}/api/v1/events/registry\n\
        The log's checkpoint:      {url}/api/v1/audit/checkpoint\n\
        The log's public keys:     {url}/api/v1/audit/keys\n\n\
        The README walks from a registration to a proof.\n"
    );
    text.into_response()
}

/// `GET /.well-known/jwks.json`: the keys that sign identity assertions (RFC 7517). A key is published before it signs, so a copy that
/// is an hour old still verifies everything.
pub async fn jwks(State(app): State<App>) -> ApiResult {
    let keys = app.claims.keyring().current();
    Ok(([(CACHE_CONTROL, "public, max-age=3600")], axum::Json(keys.jwks())).into_response())
}
