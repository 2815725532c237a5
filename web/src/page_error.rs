//! Error pages, each with the next step.

use std::borrow::Cow;

use api::error::ApiError;
use askama::Template;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use store::StoreError;

use super::{PageLayout, SignedIn, Site, page};

/// The texts of an error page.
#[derive(Debug, Clone)]
pub struct PageErrorTexts {
    /// The event, in a few words.
    pub title: &'static str,
    /// The consequence for the person.
    pub text: &'static str,
    /// The next step of the person.
    pub next: &'static str,
    /// Path of the next step.
    pub link: Cow<'static, str>,
    /// Text of the link.
    pub label: &'static str,
}

/// Why a page is not shown; itself a page.
#[derive(Debug)]
pub struct PageError(Box<Response>);

/// The result of a page handler.
pub type PageResult = Result<Response, PageError>;

#[derive(Template)]
#[template(path = "trouble.html")]
struct TroublePage {
    frame: PageLayout,
    shown: PageErrorTexts,
}

impl PageError {
    /// An error page with these texts.
    pub fn shown(site: &Site, visitor: Option<&SignedIn>, status: StatusCode, shown: PageErrorTexts) -> Self {
        Self(Box::new(page(status, &TroublePage { frame: PageLayout::new(site, visitor), shown })))
    }

    /// A page that is drawn already.
    pub fn drawn(response: Response) -> Self {
        Self(Box::new(response))
    }

    /// Something could not be done right now. The headers of the API's error are kept, `Retry-After` among them.
    pub fn api(site: &Site, error: &ApiError) -> Self {
        let mut response = Self::shown(
            site,
            None,
            error.code().status(),
            PageErrorTexts {
                title: "The service is temporarily unavailable",
                text: "It is overloaded or restarting, or you sent too many requests in a short time. Nothing was lost.",
                next: "Wait a moment and try again.",
                link: "/account".into(),
                label: "Your account",
            },
        );
        response.0.headers_mut().extend(error.headers());
        response
    }

    /// A redirect to another page.
    pub fn elsewhere(path: &str) -> Self {
        Self(Box::new(Redirect::to(path).into_response()))
    }

    /// For [`Result::map_err`]: the store could not answer.
    pub fn store(site: &Site) -> impl Fn(StoreError) -> Self {
        let site = site.clone();
        move |error| Self::api(&site, &error.into())
    }

    /// For [`Result::map_err`]: anything that is an error of the API too.
    pub fn of<E: Into<ApiError>>(site: &Site) -> impl Fn(E) -> Self {
        let site = site.clone();
        move |error| Self::api(&site, &error.into())
    }
}

/// An answer that was made elsewhere.
impl From<Response> for PageError {
    fn from(response: Response) -> Self {
        Self(Box::new(response))
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        *self.0
    }
}
