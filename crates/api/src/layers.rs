//! Middleware of the public listener, from the outside in: a request id that log lines contain, panic recovery, the
//! checks of the head, the gate (maximum number of concurrent requests), and after the handler the headers of every response.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use app::telemetry::RouteCounts;
use app::telemetry::lines::{RequestId, RequestLine, UNMATCHED, with_request, within};
use axum::Router;
use axum::extract::{FromRef, MatchedPath, Request, State};
use axum::http::header::{CACHE_CONTROL, STRICT_TRANSPORT_SECURITY};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use axum::response::{IntoResponse, Response};
use domain::trace::TraceContext;
use futures_util::FutureExt;
use tower::layer::layer_fn;
use tower::{Layer, Service};

use super::browser::{self, prefers_html};
use super::connection::Peer;
use super::cors::{Cors, CrossOrigin};
use super::error::{ApiError, Code};
use super::head;
use super::knowledge::error::KnowledgeError;
use super::route::KNOWLEDGE_PREFIX;
use super::state::HttpState;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Header of W3C Trace Context.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// RFC 6797: a browser that has reached the server over https does not try plain http for a year.
const ONE_YEAR: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Puts the layers around the routes.
pub fn around(routes: Router<HttpState>, state: HttpState) -> Router {
    routes
        .fallback(async |State(state): State<HttpState>, uri: Uri, headers: HeaderMap| {
            refused(&state, Surface::of(&uri), prefers_html(&headers), Code::NotFound.into())
        })
        .method_not_allowed_fallback(async |State(state): State<HttpState>, uri: Uri, headers: HeaderMap| {
            refused(&state, Surface::of(&uri), prefers_html(&headers), Code::MethodNotAllowed.into())
        })
        .layer(layer(state.clone()))
        .with_state(state)
}

/// The layer as a separate service: the general form for functions (`axum::middleware::from_fn`) clones and boxes the inner service once
/// more for each request.
fn layer<S>(state: HttpState) -> impl Layer<S, Service = RequestLayer<S>> + Clone {
    layer_fn(move |inner| RequestLayer { state: state.clone(), inner })
}

#[derive(Clone)]
struct RequestLayer<S> {
    state: HttpState,
    inner: S,
}

impl<S> Service<Request> for RequestLayer<S>
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

    fn call(&mut self, request: Request) -> Self::Future {
        let state = self.state.clone();
        let route = request.extensions().get::<MatchedPath>();
        let counts = state.requests.of(route.map_or(UNMATCHED, MatchedPath::as_str));
        let context = RequestContext::begin(&request, counts, &state);
        // The handler does not run before this future is polled, which happens inside the gate and the panic recovery.
        let handled = self.inner.call(request);
        Box::pin(async move {
            let handled = async { handled.await.unwrap_or_else(|never| match never {}) };
            Ok(context.through(handled, &state).await)
        })
    }
}

/// One request on its way through the layers.
pub(super) struct RequestContext {
    begun: Instant,
    line: RequestLine,
    surface: Surface,
    is_browser: bool,
    peer: Peer,
    judged: Result<(), ApiError>,
    cross_origin: CrossOrigin,
}

impl RequestContext {
    /// The context of this request; `counts` belongs to its route.
    pub(super) fn begin(request: &Request, counts: Arc<RouteCounts>, state: &HttpState) -> Self {
        let surface = Surface::of(request.uri());
        Self {
            begun: Instant::now(),
            line: RequestLine {
                id: request_id(request, state),
                trace: trace_of(request, state),
                method: request.method().clone(),
                route: counts,
            },
            cross_origin: match surface {
                Surface::Main => CrossOrigin::Off,
                Surface::Knowledge => Cors::from_ref(state).judge(request),
            },
            surface,
            is_browser: prefers_html(request.headers()),
            peer: Peer::of(request),
            judged: head::judge(request),
        }
    }

    /// Runs the handler, unless the request is refused before.
    pub(super) async fn through(self, handled: impl Future<Output = Response>, state: &HttpState) -> Response {
        let Self { begun, line, surface, is_browser, peer: Peer(connection), judged, cross_origin } = self;
        let refused = |error| refused(state, surface, is_browser, error);
        let preflight = cross_origin.preflight();
        let gated = async {
            if let Err(error) = judged {
                return refused(error);
            }
            if let Some(response) = preflight {
                return response;
            }
            // A handler that awaits the request's body releases the place and takes it again.
            let Some(_place) = connection.enter(&state.gate) else {
                return refused(ApiError::unavailable("overloaded", Duration::from_secs(1)));
            };
            handled.await
        };
        let trace = line.trace;
        let answered = async {
            let mut response = AssertUnwindSafe(gated).catch_unwind().await.unwrap_or_else(|_panic| {
                tracing::error!("a handler panicked");
                refused(ApiError::unavailable("internal", Duration::from_secs(5)))
            });
            let status = response.status();
            let headers = response.headers_mut();
            if surface.is_secure(state) {
                headers.insert(STRICT_TRANSPORT_SECURITY, ONE_YEAR);
            }
            cross_origin.describe(headers);
            // Responses are private to their caller, unless the handler set the header.
            headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
            with_request(|line| {
                headers.insert(REQUEST_ID, line.id.as_header());
                line.route.answered(&line.method, status, begun.elapsed());
            });
            response
        };
        within(line, statistics::trace::within(trace, answered)).await
    }
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

    /// Whether the URL of this API is https.
    fn is_secure(self, state: &HttpState) -> bool {
        let url = match self {
            Self::Main => &state.app.urls.base,
            Self::Knowledge => &state.app.urls.rag,
        };
        url.starts_with("https://")
    }
}

/// An error in the format of its API; for a browser, a page.
fn refused(state: &HttpState, surface: Surface, is_browser: bool, error: ApiError) -> Response {
    browser::error(state, is_browser, error, |error| match surface {
        Surface::Main => error.into_response(),
        Surface::Knowledge => KnowledgeError::from(error).into_response(),
    })
}

/// The trace that the client's `traceparent` names; a new one if the header is absent or invalid, as W3C Trace Context asks.
fn trace_of(request: &Request, state: &HttpState) -> TraceContext {
    let sent = request.headers().get(TRACEPARENT).and_then(|value| value.to_str().ok()?.parse().ok());
    sent.unwrap_or_else(|| TraceContext::begin(&state.app.rng))
}

/// The id that the client sent, if it is a plain word, so that logs of several services share it; otherwise a new id.
fn request_id(request: &Request, state: &HttpState) -> RequestId {
    let sent = request.headers().get(REQUEST_ID).and_then(|id| RequestId::sent(id.as_bytes()));
    sent.unwrap_or_else(|| RequestId::made(state.app.rng.uuid_v7(state.app.clock.now())))
}
