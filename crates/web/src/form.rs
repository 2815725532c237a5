//! Extractor for forms of pages of this server.

use std::sync::Arc;

use api::HttpState;
use api::body::RawBody;
use api::error::Code;
use api::knowledge::large::LargeBodies;
use api::origin::{self, OriginPolicy};
use axum::extract::{FromRef, FromRequest, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use domain::ids::UserAccountId;
use serde::de::DeserializeOwned;

use super::{PageError, PageErrorTexts, Site};

/// A form that a page of this server sent. A browser also sends cookies with a foreign page's forms, so a form of unknown origin is
/// refused.
#[derive(Debug)]
pub struct PageForm<T>(pub T);

impl<T: DeserializeOwned> FromRequest<HttpState> for PageForm<T> {
    type Rejection = PageError;

    async fn from_request(request: Request, state: &HttpState) -> Result<Self, PageError> {
        let (site, policy): (_, Arc<OriginPolicy>) = (Site::from_ref(state), FromRef::from_ref(state));
        let (parts, body) = request.into_parts();
        from_our_page(&parts, &policy, &site)?;
        let RawBody(bytes) = RawBody::from_request(Request::from_parts(parts, body), state)
            .await
            .map_err(|error| PageError::api(&site, &error))?;
        Self::parsed(&bytes, &site)
    }
}

/// Reads forms that may be as large as a batch of the knowledge API. Clones share the limits.
#[derive(Debug, Clone)]
pub struct LargeForms {
    site: Site,
    policy: Arc<OriginPolicy>,
    bodies: Arc<LargeBodies>,
}

impl FromRef<HttpState> for LargeForms {
    fn from_ref(state: &HttpState) -> Self {
        Self { site: Site::from_ref(state), policy: FromRef::from_ref(state), bodies: FromRef::from_ref(state) }
    }
}

impl LargeForms {
    /// Reads the form of a request, for this account.
    pub async fn read<T: DeserializeOwned>(
        &self,
        request: Request,
        account: &UserAccountId,
    ) -> Result<PageForm<T>, PageError> {
        let site = &self.site;
        let (parts, body) = request.into_parts();
        from_our_page(&parts, &self.policy, site)?;
        let body = self.bodies.read(&parts, body, account).await.map_err(|error| match error.code() {
            Code::PayloadTooLarge => PageError::shown(
                site,
                None,
                StatusCode::PAYLOAD_TOO_LARGE,
                PageErrorTexts {
                    title: "The form is too large",
                    text: "Nothing was added.",
                    next: "Go back and send it in several smaller parts.",
                    link: "/knowledge".into(),
                    label: "Your knowledge",
                },
            ),
            _ => PageError::api(site, &error),
        })?;
        PageForm::parsed(&body.bytes, site)
    }
}

impl<T: DeserializeOwned> PageForm<T> {
    fn parsed(bytes: &[u8], site: &Site) -> Result<Self, PageError> {
        serde_urlencoded::from_bytes(bytes).map(Self).map_err(|_| {
            PageError::shown(
                site,
                None,
                StatusCode::BAD_REQUEST,
                PageErrorTexts {
                    title: "The form is incomplete",
                    text: "Some of its fields are missing or cannot be read. Nothing was changed.",
                    next: "Go back and send it again.",
                    link: "/account".into(),
                    label: "Your account",
                },
            )
        })
    }
}

fn from_our_page(parts: &Parts, policy: &OriginPolicy, site: &Site) -> Result<(), PageError> {
    if origin::allows_form(parts, policy) {
        return Ok(());
    }
    Err(PageError::shown(
        site,
        None,
        StatusCode::FORBIDDEN,
        PageErrorTexts {
            title: "This request came from another page",
            text: "Another site sent the request, or your browser hides its origin. Nothing was changed.",
            next: "Open the page here and try again.",
            link: "/account".into(),
            label: "Your account",
        },
    ))
}
