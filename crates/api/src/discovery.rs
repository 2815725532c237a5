//! Entry points that need no prior knowledge: the welcome page and the documents under `/.well-known`.

mod card;
mod oauth;

use actors::claim::Claims;
use app::config::Urls;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::{ACCEPT, CACHE_CONTROL, VARY};
use axum::response::{IntoResponse, Response};

pub use self::card::agent_card;
pub use self::oauth::{
    Resources, authorization_server, knowledge_resource, knowledge_resource_at, protected_resource,
    protected_resource_at,
};
use super::error::ApiResult;
use super::state::HttpState;

/// `GET /`: a page for browsers; other clients get a text with the most important URLs.
pub async fn welcome(State(state): State<HttpState>, request: Request) -> Response {
    let accepts = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let mut response = if accepts.contains("text/html") {
        let (parts, _) = request.into_parts();
        (state.browser.home)(state.clone(), parts).await
    } else {
        addresses(&state.app.urls).into_response()
    };
    response.headers_mut().append(VARY, HeaderValue::from_static("accept"));
    response
}

fn addresses(urls: &Urls) -> String {
    let url = &urls.base;
    format!(
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
    )
}

/// `GET /.well-known/jwks.json`: the keys that sign identity assertions (RFC 7517). A key is published before its first use, so clients
/// can cache the document for an hour.
pub async fn jwks(State(claims): State<Claims>) -> ApiResult {
    let keys = claims.keyring().current();
    Ok(([(CACHE_CONTROL, "public, max-age=3600")], axum::Json(keys.jwks())).into_response())
}
