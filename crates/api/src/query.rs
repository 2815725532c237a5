//! Reads the query of a URL.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::error::ApiError;

/// The parameters of the API's URLs. Unknown ones are ignored; invalid and duplicate ones are 400 `invalid_request`.
#[derive(Debug)]
pub struct ApiQuery<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for ApiQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        read(parts).map(Self).map_err(|error| ApiError::invalid("", format!("the query cannot be read: {error}")))
    }
}

/// The parameters of a request.
pub fn read<T: DeserializeOwned>(parts: &Parts) -> Result<T, serde_urlencoded::de::Error> {
    serde_urlencoded::from_str(parts.uri.query().unwrap_or_default())
}
