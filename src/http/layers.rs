//! What every request of the public listener passes through, from the outside in: a request id that its log lines show, a panic net, the gate
//! (how many at once, no compressed bodies), and after the handler the headers that every answer has.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_ENCODING};
use axum::http::{HeaderName, HeaderValue, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;

use super::KNOWLEDGE_PREFIX;
use super::error::{ApiError, Code};
use super::knowledge::error::KnowledgeError;
use crate::house::House;
use crate::telemetry::lines::{RequestLine, UNMATCHED, within};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Puts the layers around the routes.
pub fn around(routes: Router<House>, house: House) -> Router {
    routes
        .fallback(async |uri: Uri| refused(Surface::of(&uri), Code::NotFound.into()))
        .method_not_allowed_fallback(async |uri: Uri| refused(Surface::of(&uri), Code::MethodNotAllowed.into()))
        .layer(from_fn_with_state(house.clone(), outermost))
        .with_state(house)
}

async fn outermost(State(house): State<House>, mut request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let request_id = request_id(&request, &house);
    request.headers_mut().insert(REQUEST_ID, request_id.clone());
    let (method, surface) = (request.method().clone(), Surface::of(request.uri()));
    let route = request.extensions().get::<MatchedPath>().cloned();
    let line = RequestLine { id: request_id.clone(), method: method.clone(), route: route.clone() };
    let answered = within(line, async {
        AssertUnwindSafe(gated(&house, surface, request, next)).catch_unwind().await.unwrap_or_else(|_panic| {
            tracing::error!("a handler panicked");
            refused(surface, ApiError::unavailable("internal", Duration::from_secs(5)))
        })
    });
    let mut response = answered.await;
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, request_id);
    // What the API answers is for its caller alone, unless a handler says otherwise.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let route = route.as_ref().map_or(UNMATCHED, MatchedPath::as_str);
    house.requests.answered(&method, route, response.status(), begun.elapsed());
    response
}

async fn gated(house: &House, surface: Surface, request: Request, next: Next) -> Response {
    let Ok(_place) = house.gate.try_acquire() else {
        return refused(surface, ApiError::unavailable("overloaded", Duration::from_secs(1)));
    };
    let encoding = request.headers().get(CONTENT_ENCODING);
    if encoding.is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return refused(surface, Code::UnsupportedContentEncoding.into());
    }
    next.run(request).await
}

/// Which of the two APIs a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Surface {
    Main,
    Knowledge,
}

impl Surface {
    fn of(uri: &Uri) -> Self {
        if uri.path().starts_with(KNOWLEDGE_PREFIX) { Self::Knowledge } else { Self::Main }
    }
}

/// An error in the words of the surface on which it happened.
fn refused(surface: Surface, error: ApiError) -> Response {
    match surface {
        Surface::Main => error.into_response(),
        Surface::Knowledge => KnowledgeError::from(error).into_response(),
    }
}

/// The id that the client sent, if it is a plain word, so that a chain of services can be followed; otherwise one of ours.
fn request_id(request: &Request, house: &House) -> HeaderValue {
    let plain = |id: &&HeaderValue| {
        (1..=64).contains(&id.len()) && id.as_bytes().iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    };
    let sent = request.headers().get(REQUEST_ID).filter(plain).cloned();
    sent.unwrap_or_else(|| {
        let mut text = [0; 36];
        let made = house.chance.uuid_v7(house.clock.now()).hyphenated().encode_lower(&mut text);
        HeaderValue::from_str(made).unwrap_or(HeaderValue::from_static("none"))
    })
}
