//! interim
use axum::response::Response;
/// Interim.
pub(crate) fn set(_response: &mut Response, _text: &str) {}
