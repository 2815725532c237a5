//! Reading the forms of our own pages.

use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use domain::ids::UserAccountId;
use serde::de::DeserializeOwned;

use super::{PageError, Shown};
use crate::app::App;
use crate::http::body::RawBody;
use crate::http::error::Code;
use crate::http::knowledge::large::large_body;
use crate::http::origin;

/// A form that one of our own pages sent. A browser sends cookies along with a foreign page's forms too, so what cannot show that it comes
/// from a page of ours goes no further.
#[derive(Debug)]
pub struct PageForm<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for PageForm<T> {
    type Rejection = PageError;

    async fn from_request(request: Request, app: &App) -> Result<Self, PageError> {
        let (parts, body) = request.into_parts();
        from_our_page(&parts, app)?;
        let RawBody(bytes) = RawBody::from_request(Request::from_parts(parts, body), app)
            .await
            .map_err(|error| PageError::api(app, &error))?;
        Self::parsed(&bytes, app)
    }
}

impl<T: DeserializeOwned> PageForm<T> {
    /// The same for a form that may be as large as a batch of the knowledge API.
    pub async fn large(request: Request, account: &UserAccountId, app: &App) -> Result<Self, PageError> {
        let (parts, body) = request.into_parts();
        from_our_page(&parts, app)?;
        let body = large_body(&parts, body, account, app).await.map_err(|error| match error.code() {
            Code::PayloadTooLarge => PageError::shown(
                app,
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
            _ => PageError::api(app, &error),
        })?;
        Self::parsed(&body.bytes, app)
    }

    fn parsed(bytes: &[u8], app: &App) -> Result<Self, PageError> {
        serde_urlencoded::from_bytes(bytes).map(Self).map_err(|_| {
            PageError::shown(
                app,
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

fn from_our_page(parts: &Parts, app: &App) -> Result<(), PageError> {
    if origin::allows_form(parts, app) {
        return Ok(());
    }
    Err(PageError::shown(
        app,
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
