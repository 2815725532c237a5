//! Extractor for query parameters of pages of this server.

use api::{HttpState, query};
use axum::extract::{FromRef, FromRequestParts};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::{PageError, PageErrorTexts, Site};

/// The query of a page's URL. Unknown parameters are ignored.
#[derive(Debug)]
pub struct PageQuery<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<HttpState> for PageQuery<T> {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, PageError> {
        query::read(parts).map(Self).map_err(|_| {
            PageError::shown(
                &Site::from_ref(state),
                None,
                StatusCode::BAD_REQUEST,
                PageErrorTexts {
                    title: "Invalid address",
                    text: "A parameter is repeated or has an invalid value. Nothing was changed.",
                    next: "Open the original link again, or start at your account page.",
                    link: "/account".into(),
                    label: "Your account",
                },
            )
        })
    }
}
