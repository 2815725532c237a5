//! Files that browsers and crawlers look for at fixed paths.

use api::error::ApiError;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

use super::Site;
use super::asset::at_fixed_path;

/// Path prefixes that crawlers may not read.
const CLOSED: [&str; 9] =
    ["/account", "/feeds", "/knowledge", "/claim", "/device", "/signin", "/signout", "/api/", "/v1/"];

/// `GET /favicon.ico`
pub(super) async fn icon() -> Result<Response, ApiError> {
    at_fixed_path("favicon.ico")
}

/// `GET /apple-touch-icon.png`
pub(super) async fn touch_icon() -> Result<Response, ApiError> {
    at_fixed_path("touch-icon.png")
}

/// `GET /robots.txt` (RFC 9309): allows the public pages, and disallows the pages of accounts.
pub(super) async fn robots(State(site): State<Site>) -> Response {
    let root = site.urls.root_path();
    let lines: Vec<String> = CLOSED.iter().map(|path| format!("Disallow: {root}{path}")).collect();
    let headers = [(CONTENT_TYPE, "text/plain; charset=utf-8"), (CACHE_CONTROL, "public, max-age=86400")];
    (headers, format!("User-agent: *\n{}\n", lines.join("\n"))).into_response()
}
