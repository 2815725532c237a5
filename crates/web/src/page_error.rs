//! Error pages, each with the next step.

use std::borrow::Cow;

use api::error::{ApiError, Code};
use askama::Template;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use domain::service_pause::Paused;

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

impl PageErrorTexts {
    /// The texts for an error of the API.
    fn of(error: &ApiError) -> Self {
        let (title, text, next) = match error.code() {
            Code::NotFound => (
                "There is no such page",
                "The address is not complete, or the page was removed.",
                "Check the address, or begin at the start page.",
            ),
            Code::MethodNotAllowed => (
                "This address cannot be opened like that",
                "It is for programs, or for a form of another page.",
                "Begin at the start page. The description of the API names the method of each address.",
            ),
            Code::PayloadTooLarge => (
                "That is too much at once",
                "The server accepts less in one request. Nothing was changed.",
                "Go back and send it in smaller parts.",
            ),
            Code::InvalidRequest
            | Code::InvalidJson
            | Code::UnsupportedContentEncoding
            | Code::UnsupportedMediaType => (
                "The request cannot be read",
                "A part of it is malformed, or of a kind that this server does not accept. Nothing was changed.",
                "Open the page again, and repeat the last step there.",
            ),
            Code::CodeConsumed => (
                "This is over",
                "It was used before, or it has expired. Nothing was changed.",
                "Begin at the start page.",
            ),
            _ if error.reason() == Some(Paused::REASON) => {
                ("This is paused", "Nothing was changed, and nothing was lost.", "Try again after the pause.")
            }
            _ if error.reason() == Some("internal") => (
                "Something failed on this server",
                "The request was not completed. The log of the server names the cause.",
                "Try again in a moment. If it fails again, send the operator the time of this page.",
            ),
            _ => (
                "The service is temporarily unavailable",
                "It is overloaded or restarting, or you sent too many requests in a short time. Nothing was lost.",
                "Wait a moment and try again.",
            ),
        };
        let is_wrong_address = matches!(error.code(), Code::NotFound | Code::MethodNotAllowed | Code::CodeConsumed);
        let (link, label) = if is_wrong_address { ("/", "Start page") } else { ("/account", "Your account") };
        Self { title, text, next, link: link.into(), label }
    }
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
    /// Until when an operator has paused the part, in words.
    paused: Option<String>,
}

impl PageError {
    /// An error page with these texts.
    pub fn shown(site: &Site, visitor: Option<&SignedIn>, status: StatusCode, shown: PageErrorTexts) -> Self {
        Self::drawn(page(status, &TroublePage { frame: PageLayout::new(site, visitor), shown, paused: None }))
    }

    /// A page that is already rendered.
    pub fn drawn(response: Response) -> Self {
        Self(Box::new(response))
    }

    /// An error of the API as a page, with the same status. The headers of the error are kept, `Retry-After` among them.
    pub fn api(site: &Site, error: &ApiError) -> Self {
        error.count();
        let paused = error.paused().map(|paused| format!("{paused}."));
        let trouble = TroublePage { frame: PageLayout::new(site, None), shown: PageErrorTexts::of(error), paused };
        let mut response = page(error.code().status(), &trouble);
        response.headers_mut().extend(error.headers());
        Self::drawn(response)
    }

    /// A redirect to another page.
    pub fn elsewhere(path: &str) -> Self {
        Self(Box::new(Redirect::to(path).into_response()))
    }

    /// For [`Result::map_err`]: any error that converts to an error of the API.
    pub fn of<E: Into<ApiError>>(site: &Site) -> impl Fn(E) -> Self {
        let site = site.clone();
        move |error| Self::api(&site, &error.into())
    }
}

/// A response that another component built.
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
