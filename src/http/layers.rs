//! What every request of the public listener passes through, from the outside in: a request id that its log lines show, a panic net, the gate
//! (how many at once, no compressed bodies), and after the handler the headers that every answer has.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::http::header::{CACHE_CONTROL, CONTENT_ENCODING};
use axum::http::{HeaderName, HeaderValue, Uri};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use tower::layer::layer_fn;
use tower::{Layer, Service};

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
        .layer(layer(house.clone()))
        .with_state(house)
}

/// The layer as a service of its own: the general form for functions (`axum::middleware::from_fn`) clones and boxes what is inside once more for
/// each request.
fn layer<S>(house: House) -> impl Layer<S, Service = Outermost<S>> + Clone {
    layer_fn(move |inner| Outermost { house: house.clone(), inner })
}

#[derive(Clone)]
struct Outermost<S> {
    house: House,
    inner: S,
}

impl<S> Service<Request> for Outermost<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let begun = Instant::now();
        let house = self.house.clone();
        let request_id = request_id(&request, &house);
        request.headers_mut().insert(REQUEST_ID, request_id.clone());
        let (method, surface) = (request.method().clone(), Surface::of(request.uri()));
        let route = request.extensions().get::<MatchedPath>().cloned();
        let line = RequestLine { id: request_id.clone(), method: method.clone(), route: route.clone() };
        let is_compressed = is_compressed(&request);
        // Nothing of the handler runs before this is polled, which is inside of the gate and the net.
        let handled = self.inner.call(request);
        Box::pin(async move {
            let gated = async {
                let Ok(_place) = house.gate.try_acquire() else {
                    return refused(surface, ApiError::unavailable("overloaded", Duration::from_secs(1)));
                };
                if is_compressed {
                    return refused(surface, Code::UnsupportedContentEncoding.into());
                }
                handled.await.unwrap_or_else(|never| match never {})
            };
            let mut response = within(line, async {
                AssertUnwindSafe(gated).catch_unwind().await.unwrap_or_else(|_panic| {
                    tracing::error!("a handler panicked");
                    refused(surface, ApiError::unavailable("internal", Duration::from_secs(5)))
                })
            })
            .await;
            let headers = response.headers_mut();
            headers.insert(REQUEST_ID, request_id);
            // What the API answers is for its caller alone, unless a handler says otherwise.
            headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
            let route = route.as_ref().map_or(UNMATCHED, MatchedPath::as_str);
            house.requests.answered(&method, route, response.status(), begun.elapsed());
            Ok(response)
        })
    }
}

fn is_compressed(request: &Request) -> bool {
    let encoding = request.headers().get(CONTENT_ENCODING);
    encoding.is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"))
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
