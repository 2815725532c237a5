//! The parameter of a path.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

/// The only parameter of a path, decoded. If it is not UTF-8, it becomes a text that is no valid id, so that the handler refuses it like an
/// unknown id.
#[derive(Debug)]
pub struct Named(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let named = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(named.map_or_else(|_| char::REPLACEMENT_CHARACTER.to_string(), |Path(name)| name)))
    }
}
