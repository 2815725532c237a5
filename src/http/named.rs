//! What the path of a request names.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use crate::app::App;

/// The one parameter of a path, decoded. What is no UTF-8 is the name of nothing: it is given as a word that nobody has for an id, so that
/// a handler refuses it as it refuses every other unknown one.
#[derive(Debug)]
pub struct Named(pub String);

impl FromRequestParts<App> for Named {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        let named = Path::<String>::from_request_parts(parts, app).await;
        Ok(Self(named.map_or_else(|_| char::REPLACEMENT_CHARACTER.to_string(), |Path(name)| name)))
    }
}
