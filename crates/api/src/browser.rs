//! The home page and error pages, which browsers get where other clients get text or JSON, and the document of a feed.
//!
//! Another crate renders them and passes them as functions. A request counts as a browser's navigation if its `Accept` starts with HTML.
//! Programs, and scripts of pages, accept JSON or any type.

use std::fmt;
use std::pin::Pin;

use axum::http::header::{ACCEPT, VARY};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use domain::feed::{Feed, FeedEntry};
use domain::secret::Secret;

use super::error::ApiError;
use super::state::HttpState;

/// A page that is being rendered.
pub type PageFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

/// The pages for browsers.
#[derive(Clone, Copy)]
pub struct BrowserPages {
    /// `GET /`
    pub home: fn(HttpState, Parts) -> PageFuture,
    /// The page of an error, with the status and the headers of the error.
    pub error: fn(&HttpState, &ApiError) -> Response,
    /// `GET /feeds/{token}`: the document of a feed with its entries, for a request with these headers.
    pub feed: fn(&HttpState, &HeaderMap, &Secret, &Feed, &[FeedEntry]) -> Response,
}

impl fmt::Debug for BrowserPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BrowserPages(…)")
    }
}

/// Whether a browser navigates: HTML is the first media type that it accepts.
pub fn prefers_html(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let first = accept.split([',', ';']).next().unwrap_or_default().trim();
    first.eq_ignore_ascii_case("text/html") || first.eq_ignore_ascii_case("application/xhtml+xml")
}

/// An error as a page for a browser, and in the given form for other clients.
pub(super) fn error(
    state: &HttpState,
    for_browser: bool,
    error: ApiError,
    otherwise: impl FnOnce(ApiError) -> Response,
) -> Response {
    if !for_browser {
        return otherwise(error);
    }
    let mut response = (state.browser.error)(state, &error);
    response.headers_mut().append(VARY, HeaderValue::from_static("accept"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_navigation_prefers_html() {
        let prefers =
            |accept: &'static str| prefers_html(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]));
        assert!(prefers("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"));
        assert!(prefers("Text/HTML"));
        for other in ["*/*", "application/json", "application/json, text/html", "text/htmlx", "", "text/*"] {
            assert!(!prefers(other), "{other}");
        }
        assert!(!prefers_html(&HeaderMap::new()));
    }
}
