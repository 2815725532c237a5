//! One row of a route table: method, path, accepted credentials, handler.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use axum::extract::Request;
use axum::handler::Handler;
use axum::http::Method;
use axum::response::Response;
use axum::routing::{self, MethodFilter, MethodRouter};

use super::accepts::Accepts;

/// The prefix of all paths of the knowledge API. No path of the account and agent API starts with it.
pub const KNOWLEDGE_PREFIX: &str = "/v1/";

/// The path of the metadata of a protected resource; the path of the resource follows it (RFC 9728, section 3.1).
pub const RESOURCE_METADATA: &str = "/.well-known/oauth-protected-resource";

/// One row of a route table; `S` is the state of its handler.
#[derive(Debug)]
pub struct Route<S> {
    /// HTTP method.
    pub method: Method,
    /// Path, with `{name}` for parameters.
    pub path: &'static str,
    /// Credentials that the route accepts.
    pub accepts: Accepts,
    pub(super) handler: MethodRouter<S>,
    pub(super) direct: Direct<S>,
}

/// The future of an axum handler.
pub type Handled = Pin<Box<dyn Future<Output = Response> + Send>>;

/// A function that axum accepts as a handler.
pub trait Endpoint<T, S>: Handler<T, S, Future = Handled> {}

impl<T, S, H: Handler<T, S, Future = Handled>> Endpoint<T, S> for H {}

/// A handler that is called without a router.
pub(super) struct Direct<S>(Arc<dyn Fn(Request, S) -> Handled + Send + Sync>);

impl<S: Clone + Send + Sync + 'static> Route<S> {
    pub(super) fn get<T: 'static>(path: &'static str, accepts: Accepts, handler: impl Endpoint<T, S>) -> Self {
        Self::on(MethodFilter::GET, Method::GET, path, accepts, handler)
    }

    pub(super) fn post<T: 'static>(path: &'static str, accepts: Accepts, handler: impl Endpoint<T, S>) -> Self {
        Self::on(MethodFilter::POST, Method::POST, path, accepts, handler)
    }

    pub(super) fn put<T: 'static>(path: &'static str, accepts: Accepts, handler: impl Endpoint<T, S>) -> Self {
        Self::on(MethodFilter::PUT, Method::PUT, path, accepts, handler)
    }

    pub(super) fn patch<T: 'static>(path: &'static str, accepts: Accepts, handler: impl Endpoint<T, S>) -> Self {
        Self::on(MethodFilter::PATCH, Method::PATCH, path, accepts, handler)
    }

    pub(super) fn delete<T: 'static>(path: &'static str, accepts: Accepts, handler: impl Endpoint<T, S>) -> Self {
        Self::on(MethodFilter::DELETE, Method::DELETE, path, accepts, handler)
    }

    fn on<T: 'static>(
        filter: MethodFilter,
        method: Method,
        path: &'static str,
        accepts: Accepts,
        handler: impl Endpoint<T, S>,
    ) -> Self {
        let direct = Direct::to(handler.clone());
        Self { method, path, accepts, direct, handler: routing::on(filter, handler) }
    }
}

impl<S> Route<S> {
    /// Whether the route belongs to the knowledge API.
    pub fn is_knowledge(&self) -> bool {
        self.path.starts_with(KNOWLEDGE_PREFIX)
    }
}

impl<S: 'static> Direct<S> {
    fn to<T: 'static>(handler: impl Endpoint<T, S>) -> Self {
        Self(Arc::new(move |request, state| handler.clone().call(request, state)))
    }

    /// Calls the handler. It does nothing before the future is polled.
    pub(super) fn call(&self, request: Request, state: S) -> Handled {
        (self.0)(request, state)
    }
}

impl<S> fmt::Debug for Direct<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Direct")
    }
}
