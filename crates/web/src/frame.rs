//! The layout and the headers of all pages.

use askama::Template;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse, Response};

use super::asset::versioned;
use super::{Flash, SignedIn, Site};

/// Only styles, scripts and images of this server; no frames, and no forms to other servers.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 7] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    // Queries of links contain tokens, so other sites must not get the referrer. Forms of this server need the origin.
    (REFERRER_POLICY, "same-origin"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=(), payment=()"),
];

/// The layout of a page: the signed-in person, and the prefix of its links.
#[derive(Debug, Clone)]
pub struct PageLayout {
    /// The path of the base URL, without a slash at the end: empty unless a proxy serves this server below a path.
    pub root: String,
    /// E-mail address of the signed-in person.
    pub email: Option<String>,
    /// The public host name of this server, for sentences such as "only confirm what you started yourself".
    pub host: String,
    flash: Flash,
}

impl PageLayout {
    /// The layout of a page for `visitor`.
    pub fn new(site: &Site, visitor: Option<&SignedIn>) -> Self {
        Self {
            root: site.urls.root_path().to_owned(),
            email: visitor.map(|visitor| visitor.email.as_str().to_owned()),
            host: site.urls.host().to_owned(),
            flash: visitor.map(|visitor| visitor.flash.clone()).unwrap_or_default(),
        }
    }

    /// Adds the message for a visitor who is not signed in.
    #[must_use]
    pub fn with_flash(self, flash: Flash) -> Self {
        Self { flash, ..self }
    }

    /// The message of the last change, for the one page that shows it.
    pub fn flash(&self) -> Option<&str> {
        self.flash.show()
    }

    /// The URL of a style, script or image.
    pub fn asset(&self, name: &str) -> String {
        format!("{}{}", self.root, versioned(name))
    }
}

/// A rendered page, with the headers that every page has.
pub fn page(status: StatusCode, template: &impl Template) -> Response {
    framed(template.render().map_or_else(|error| unrendered(&error), |html| (status, Html(html)).into_response()))
}

/// A response with the headers that every page has.
pub(super) fn framed(mut response: Response) -> Response {
    let headers = HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value)));
    response.headers_mut().extend(headers);
    response
}

/// The response in place of a page that could not be rendered.
pub(super) fn unrendered(error: &askama::Error) -> Response {
    tracing::error!(error = domain::reasons(error), "a page could not be rendered");
    (StatusCode::INTERNAL_SERVER_ERROR, "This page could not be rendered. Please try again.").into_response()
}
