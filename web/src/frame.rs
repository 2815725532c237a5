//! The layout and the headers of all pages.

use askama::Template;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse, Response};

use super::asset::versioned;
use super::{SignedIn, Site};

/// Nothing but our own styles, scripts and images; no frames around us, no forms to elsewhere.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 7] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    // Links carry tokens in their query, so no other site may read where a person came from. Our own forms need their origin.
    (REFERRER_POLICY, "same-origin"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=(), payment=()"),
];

/// The place of a page: who looks at it, and what its links begin with.
#[derive(Debug, Clone)]
pub struct PageLayout {
    /// The path of the base URL, without a slash at the end: empty unless a proxy serves us below one.
    pub root: String,
    /// E-mail address of the signed-in person.
    pub email: Option<String>,
    /// The host under which people know us, for sentences such as "only confirm what you started yourself".
    pub host: String,
}

impl PageLayout {
    /// Around a page for `visitor`.
    pub fn new(site: &Site, visitor: Option<&SignedIn>) -> Self {
        let origin = site.urls.origin();
        Self {
            root: site.urls.root_path().to_owned(),
            email: visitor.map(|visitor| visitor.email.as_str().to_owned()),
            host: origin.split("://").nth(1).unwrap_or(origin).to_owned(),
        }
    }

    /// The URL of a style, script or image.
    pub fn asset(&self, name: &str) -> String {
        format!("{}{}", self.root, versioned(name))
    }
}

/// A rendered page, with the headers that every page has.
pub fn page(status: StatusCode, template: &impl Template) -> Response {
    let mut response = match template.render() {
        Ok(html) => (status, Html(html)).into_response(),
        Err(error) => {
            tracing::error!(error = domain::reasons(&error), "a page could not be rendered");
            (StatusCode::INTERNAL_SERVER_ERROR, "This page could not be rendered. Please try again.").into_response()
        }
    };
    let headers = HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value)));
    response.headers_mut().extend(headers);
    response
}
