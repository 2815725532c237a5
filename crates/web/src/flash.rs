//! One message after a change, such as "The computer is detached.", which only the next page shows.
//!
//! A sealed cookie contains the text, so that a link or another site cannot put words on a page, and neither reloading nor a bookmark
//! repeats them. The text is a constant of this crate without secrets: the browser stores it until a page has shown it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use api::cookie::{Cookie, Cookies};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

/// Maximum length of a message, in characters.
const CHARS_MAX: usize = 300;

/// The message for the next page, if there is one. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Flash(Option<Arc<Waiting>>);

#[derive(Debug)]
struct Waiting {
    text: String,
    is_shown: AtomicBool,
}

impl Flash {
    /// The text, for the page that shows it; the response then deletes the cookie.
    pub fn show(&self) -> Option<&str> {
        let waiting = self.0.as_ref()?;
        waiting.is_shown.store(true, Ordering::Relaxed);
        Some(&waiting.text)
    }

    fn of(headers: &HeaderMap, cookies: &Cookies) -> Self {
        let sealed = cookies.read(Cookie::Flash, headers);
        let text = sealed.and_then(|value| BASE64_URL_SAFE_NO_PAD.decode(value.expose()).ok());
        let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
        Self(text.map(|text| Arc::new(Waiting { text, is_shown: AtomicBool::new(false) })))
    }

    fn is_shown(&self) -> bool {
        self.0.as_ref().is_some_and(|waiting| waiting.is_shown.load(Ordering::Relaxed))
    }
}

impl<S: Sync> FromRequestParts<S> for Flash {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}

/// The message of a response, before the middleware writes it into a cookie.
#[derive(Debug, Clone)]
struct Message(String);

/// The page that follows this response shows the text, once.
pub fn set(response: &mut Response, text: impl Into<String>) {
    let text: String = text.into();
    response.extensions_mut().insert(Message(text.chars().take(CHARS_MAX).collect()));
}

/// Middleware of all pages: gives the handler the message of the previous response, and stores the message of this response in a cookie.
pub(super) async fn carry(State(cookies): State<Arc<Cookies>>, mut request: Request, next: Next) -> Response {
    let flash = Flash::of(request.headers(), &cookies);
    request.extensions_mut().insert(flash.clone());
    let mut response = next.run(request).await;
    if let Some(Message(text)) = response.extensions_mut().remove() {
        cookies.set(Cookie::Flash, &mut response, &BASE64_URL_SAFE_NO_PAD.encode(text));
    } else if flash.is_shown() {
        cookies.clear(Cookie::Flash, &mut response);
    }
    response
}
