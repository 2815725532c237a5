//! Responses of the statistics service that pass through: status, Content-Type and body unchanged, Retry-After for senders of events, and
//! no other header. A body from another party must not run in a browser, so it is sandboxed.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, Response};
use statistics::contract::{Passed, Unavailable};
use std::time::Duration;

use super::error::ApiError;

/// The unchanged response to an event, with its `Retry-After`.
pub fn to_sender(mut passed: Passed) -> axum::response::Response {
    let retry_after = passed.retry_after.take();
    let mut response = response(passed);
    if let Some(retry_after) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, retry_after);
    }
    response
}

/// The unchanged response to a query.
pub fn response(passed: Passed) -> axum::response::Response {
    let mut response = Response::new(Body::from(passed.body));
    *response.status_mut() = passed.status;
    let headers = response.headers_mut();
    let mut put = |name, value: Option<HeaderValue>| {
        if let Some(value) = value {
            headers.insert(name, value);
        }
    };
    put(CONTENT_TYPE, passed.content_type);
    put(X_CONTENT_TYPE_OPTIONS, Some(HeaderValue::from_static("nosniff")));
    put(CONTENT_SECURITY_POLICY, Some(HeaderValue::from_static("sandbox; default-src 'none'")));
    put(CACHE_CONTROL, Some(HeaderValue::from_static("no-store")));
    response
}

/// 424: the statistics service did not respond.
pub fn unreachable(error: &Unavailable) -> ApiError {
    tracing::warn!(error = domain::reasons(error), "the statistics service gave no answer");
    ApiError::unavailable("upstream_unavailable", Duration::from_secs(1))
}
