//! Cross-origin requests of web pages to the knowledge API (WHATWG Fetch, section 3.2; `docs/decisions/0020-keys-and-spaces.md`).
//!
//! Only configured origins get the headers, without `Access-Control-Allow-Credentials`: the only credential of a page of another origin is
//! an API key.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE");
const REQUEST_HEADERS: HeaderValue =
    HeaderValue::from_static("Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Traceparent, X-Request-Id");
const RESPONSE_HEADERS: HeaderValue =
    HeaderValue::from_static("Retry-After, WWW-Authenticate, X-Batch-Id, X-Request-Id");
/// Seconds for which a browser may cache a preflight.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
const VARY_ORIGIN: HeaderValue = HeaderValue::from_static("Origin");

/// The origins of `knowledge.cors_origins`. Clones share them.
#[derive(Debug, Clone)]
pub struct Cors(Arc<[HeaderValue]>);

/// The relation of a request to the configured origins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CrossOrigin {
    /// No origin is configured.
    Off,
    /// The request has no origin, or one that is not configured.
    Foreign,
    /// The request comes from this configured origin.
    Allowed(HeaderValue),
    /// The browser asks whether a page of this configured origin may send a request.
    Preflight(HeaderValue),
}

impl Cors {
    /// These origins, as browsers send them.
    pub fn new(origins: &[String]) -> Self {
        Self(origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()).collect())
    }

    pub(super) fn judge(&self, request: &Request) -> CrossOrigin {
        if self.0.is_empty() {
            return CrossOrigin::Off;
        }
        let headers = request.headers();
        let configured = headers.get(ORIGIN).filter(|origin| self.0.contains(origin)).cloned();
        let asks = request.method() == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        match configured {
            None => CrossOrigin::Foreign,
            Some(origin) if asks => CrossOrigin::Preflight(origin),
            Some(origin) => CrossOrigin::Allowed(origin),
        }
    }
}

impl CrossOrigin {
    /// The response to a preflight.
    pub(super) fn preflight(&self) -> Option<Response> {
        let Self::Preflight(_) = self else { return None };
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS);
        headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        Some(response)
    }

    /// Adds the headers of a response.
    pub(super) fn describe(self, headers: &mut HeaderMap) {
        match self {
            Self::Off => return,
            Self::Foreign => {}
            Self::Preflight(origin) => {
                headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            }
            Self::Allowed(origin) => {
                headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
                headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, RESPONSE_HEADERS);
            }
        }
        // A cache must not give the response to another origin.
        headers.append(VARY, VARY_ORIGIN);
    }
}
