//! Pages that say what went wrong, and what to do now.

use std::borrow::Cow;

use askama::Template;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use store::StoreError;

use super::{PageLayout, SignedIn, page};
use crate::app::App;
use crate::http::error::ApiError;

/// What is shown.
#[derive(Debug, Clone)]
pub struct Shown {
    /// What happened, in a few words.
    pub title: &'static str,
    /// What that means.
    pub text: &'static str,
    /// What to do now.
    pub next: &'static str,
    /// Where that is, a path of ours.
    pub link: Cow<'static, str>,
    /// What the link says.
    pub label: &'static str,
}

/// Why a page is not shown; itself a page.
#[derive(Debug)]
pub struct PageError(Box<Response>);

/// What handlers of pages give.
pub type PageResult = Result<Response, PageError>;

#[derive(Template)]
#[template(path = "trouble.html")]
struct TroublePage {
    frame: PageLayout,
    shown: Shown,
}

impl PageError {
    /// A page of its own, for whoever looks at it.
    pub fn shown(app: &App, visitor: Option<&SignedIn>, status: StatusCode, shown: Shown) -> Self {
        Self(Box::new(page(status, &TroublePage { frame: PageLayout::new(app, visitor), shown })))
    }

    /// A page that is drawn already.
    pub fn drawn(response: Response) -> Self {
        Self(Box::new(response))
    }

    /// Something could not be done right now. The headers of the API's error are kept, `Retry-After` among them.
    pub fn api(app: &App, error: &ApiError) -> Self {
        let mut response = Self::shown(
            app,
            None,
            error.code().status(),
            Shown {
                title: "This could not be done right now",
                text: "The service is busy, restarting, or you tried very often in a short time. Nothing was lost.",
                next: "Wait a moment and try again.",
                link: "/account".into(),
                label: "To your account",
            },
        );
        response.0.headers_mut().extend(error.headers());
        response
    }

    /// Somewhere else instead.
    pub fn elsewhere(path: &str) -> Self {
        Self(Box::new(Redirect::to(path).into_response()))
    }

    /// For [`Result::map_err`]: the store could not answer.
    pub fn store(app: &App) -> impl Fn(StoreError) -> Self {
        let app = app.clone();
        move |error| Self::api(&app, &error.into())
    }

    /// For [`Result::map_err`]: anything that is an error of the API too.
    pub fn of<E: Into<ApiError>>(app: &App) -> impl Fn(E) -> Self {
        let app = app.clone();
        move |error| Self::api(&app, &error.into())
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
