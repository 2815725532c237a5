//! Entry points that need no prior knowledge: the welcome page and the documents under `/.well-known`.

mod card;
mod oauth;

use std::sync::Arc;

use actors::claim::Claims;
use app::config::Urls;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CACHE_CONTROL};
use axum::response::{IntoResponse, Redirect, Response};

pub use self::card::agent_card;
pub use self::oauth::{
    Resources, authorization_server, knowledge_resource, knowledge_resource_at, protected_resource,
    protected_resource_at,
};
use super::error::ApiResult;

/// `GET /`: redirects browsers to the account page; other clients get a text with the most important URLs.
pub async fn welcome(State(urls): State<Arc<Urls>>, headers: HeaderMap) -> Response {
    let accepts = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if accepts.contains("text/html") {
        return Redirect::to(&format!("{}/account", urls.root_path())).into_response();
    }
    let url = &urls.base;
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
pub async fn jwks(State(claims): State<Claims>) -> ApiResult {
    let keys = claims.keyring().current();
    Ok(([(CACHE_CONTROL, "public, max-age=3600")], axum::Json(keys.jwks())).into_response())
}
