//! Parts of requests.

use axum::body::Bytes;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use domain::act::{ActReason, InvalidReason};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::refusal::Refusal;

/// The query of a change without other parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WithReason {
    pub reason: Option<String>,
}

/// The parameters of a URL.
pub struct OpsQuery<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for OpsQuery<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Refusal> {
        let read = api::query::read(parts).map(Self);
        read.map_err(|error| Refusal::invalid("invalid_query", format!("the query cannot be read: {error}")))
    }
}

/// The members of a JSON body.
pub fn body<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, Refusal> {
    serde_json::from_slice(bytes).map_err(|error| Refusal::invalid("invalid_request", format!("the body: {error}")))
}

/// The reason, which every change needs.
pub fn reason(text: Option<&str>) -> Result<ActReason, Refusal> {
    let text = text.unwrap_or_default();
    text.parse().map_err(|error: InvalidReason| Refusal::invalid("reason_missing", error.to_string()))
}
