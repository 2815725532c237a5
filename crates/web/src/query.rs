//! Extractor for query parameters of pages of this server.

use api::{HttpState, query};
use axum::extract::{FromRef, FromRequestParts};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{PageError, PageErrorTexts, Site};

/// The query of a page's URL. Unknown parameters are ignored.
#[derive(Debug)]
pub struct PageQuery<T>(pub T);

/// `?cursor`: the start of a page; its first page if it is absent or empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct CursorQuery {
    cursor: String,
}

impl CursorQuery {
    /// The cursor; `None` for the first page.
    pub fn cursor(&self) -> Option<&str> {
        Some(self.cursor.as_str()).filter(|cursor| !cursor.is_empty())
    }
}

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
