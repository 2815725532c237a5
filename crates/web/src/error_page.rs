//! Errors for browsers that happen outside of the pages, such as an unknown path.

use api::HttpState;
use api::error::ApiError;
use axum::extract::FromRef;
use axum::response::{IntoResponse, Response};

use super::{PageError, Site};

/// The page of an error, with its status and headers.
pub(super) fn show(state: &HttpState, error: &ApiError) -> Response {
    PageError::api(&Site::from_ref(state), error).into_response()
}
