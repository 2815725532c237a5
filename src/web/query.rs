//! Reading the addresses of our own pages.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::{Shown, Trouble};
use crate::house::House;
use crate::http::query;

/// What stands behind the question mark of a page's address. Unknown names are ignored.
#[derive(Debug)]
pub struct PageQuery<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<House> for PageQuery<T> {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, house: &House) -> Result<Self, Trouble> {
        query::read(parts).map(Self).map_err(|_| {
            Trouble::shown(
                house,
                None,
                StatusCode::BAD_REQUEST,
                Shown {
                    title: "This address cannot be read",
                    text: "Something in it is there twice, or is not what belongs there. Nothing was changed.",
                    next: "Open the link again as it was given to you, or start here.",
                    link: "/account".into(),
                    label: "To your account",
                },
            )
        })
    }
}
