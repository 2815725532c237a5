//! Reading the forms of our own pages.

use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use domain::ids::UserAccountId;
use serde::de::DeserializeOwned;

use super::{Shown, Trouble};
use crate::house::House;
use crate::http::body::RawBody;
use crate::http::error::Code;
use crate::http::knowledge::large::large_body;
use crate::http::origin;

/// A form that one of our own pages sent. A browser sends cookies along with a foreign page's forms too, so what cannot show that it comes
/// from a page of ours goes no further.
#[derive(Debug)]
pub struct PageForm<T>(pub T);

impl<T: DeserializeOwned> FromRequest<House> for PageForm<T> {
    type Rejection = Trouble;

    async fn from_request(request: Request, house: &House) -> Result<Self, Trouble> {
        let (parts, body) = request.into_parts();
        from_our_page(&parts, house)?;
        let RawBody(bytes) = RawBody::from_request(Request::from_parts(parts, body), house)
            .await
            .map_err(|error| Trouble::api(house, &error))?;
        Self::parsed(&bytes, house)
    }
}

impl<T: DeserializeOwned> PageForm<T> {
    /// The same for a form that may be as large as a batch of the knowledge API.
    pub async fn large(request: Request, account: &UserAccountId, house: &House) -> Result<Self, Trouble> {
        let (parts, body) = request.into_parts();
        from_our_page(&parts, house)?;
        let body = large_body(&parts, body, account, house).await.map_err(|error| match error.code() {
            Code::PayloadTooLarge => Trouble::shown(
                house,
                None,
                StatusCode::PAYLOAD_TOO_LARGE,
                Shown {
                    title: "This is more than can be sent at once",
                    text: "Nothing was added.",
                    next: "Go back and send it in several smaller parts.",
                    link: "/knowledge".into(),
                    label: "To your knowledge",
                },
            ),
            _ => Trouble::api(house, &error),
        })?;
        Self::parsed(&body.bytes, house)
    }

    fn parsed(bytes: &[u8], house: &House) -> Result<Self, Trouble> {
        serde_urlencoded::from_bytes(bytes).map(Self).map_err(|_| {
            Trouble::shown(
                house,
                None,
                StatusCode::BAD_REQUEST,
                Shown {
                    title: "The form came incomplete",
                    text: "Some of its fields are missing or cannot be read. Nothing was changed.",
                    next: "Go back and send it again.",
                    link: "/account".into(),
                    label: "To your account",
                },
            )
        })
    }
}

fn from_our_page(parts: &Parts, house: &House) -> Result<(), Trouble> {
    if origin::allows_form(parts, house) {
        return Ok(());
    }
    Err(Trouble::shown(
        house,
        None,
        StatusCode::FORBIDDEN,
        Shown {
            title: "This did not come from our page",
            text: "The request was made by another site, or your browser hides where it came from. Nothing was changed.",
            next: "Open the page here and try again.",
            link: "/account".into(),
            label: "To your account",
        },
    ))
}
