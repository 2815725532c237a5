//! Reading queries, with errors that say what is wrong.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::error::ApiError;
use crate::app::App;

/// The parameters of the API's URLs. Unknown ones are ignored; what does not fit, and what is sent twice, is 400 `invalid_request`.
#[derive(Debug)]
pub struct ApiQuery<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<App> for ApiQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _house: &App) -> Result<Self, ApiError> {
        read(parts).map(Self).map_err(|error| ApiError::invalid("", format!("the query cannot be read: {error}")))
    }
}

/// The parameters of a request.
pub fn read<T: DeserializeOwned>(parts: &Parts) -> Result<T, serde_urlencoded::de::Error> {
    serde_urlencoded::from_str(parts.uri.query().unwrap_or_default())
}
