//! From a request to its handler.
//!
//! 1. If the method and path of a request equal a row of the table without parameters, the handler of that row answers: one map look-up,
//!    one boxed future.
//! 2. axum's router answers all other requests: paths with parameters, pages, `HEAD`, and requests without a route. The router clones and
//!    boxes every layer of a route for each request.
//!
//! Both pass through the same [layers](super::layers).

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use app::telemetry::RouteCounts;
use axum::Router;
use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;
use tower::ServiceExt;

use super::accepts::Accepts;
use super::connection::{Connection, Peer};
use super::layers::{self, RequestContext};
use super::route::{Direct, Route};
use super::state::HttpState;

/// The service of a listener. Clones share it.
#[derive(Clone)]
pub struct Front(Arc<Shared>);

struct Shared {
    state: HttpState,
    /// Rows without parameters, by their path.
    rows: HashMap<&'static str, Vec<Row>>,
    router: Router,
}

struct Row {
    method: Method,
    accepts: Accepts,
    direct: Direct<HttpState>,
    counts: Arc<RouteCounts>,
}

impl Front {
    /// Serves this table and `others`.
    pub(super) fn new(state: HttpState, table: Vec<Route<HttpState>>, others: Router<HttpState>) -> Self {
        let mut rows: HashMap<_, Vec<_>> = HashMap::new();
        let mut router = others;
        for Route { method, path, accepts, handler, direct } in table {
            if !path.contains('{') {
                let row = Row { method, accepts, direct, counts: state.requests.of(path) };
                rows.entry(path).or_default().push(row);
            }
            // Each method of a path is a separate route with its own credentials.
            router = router.route(path, handler.layer(axum::Extension(accepts)));
        }
        Self(Arc::new(Shared { router: layers::around(router, state.clone()), state, rows }))
    }

    /// Answers a request that came on this connection.
    pub async fn answer(self, mut request: Request, connection: Arc<Connection>) -> Response {
        let Shared { state, router, .. } = &*self.0;
        request.extensions_mut().insert(Peer(connection));
        let Some(row) = self.0.row(&request) else {
            return router.clone().oneshot(request).await.unwrap_or_else(|never: Infallible| match never {});
        };
        if row.accepts != Accepts::NONE {
            request.extensions_mut().insert(row.accepts);
        }
        let context = RequestContext::begin(&request, Arc::clone(&row.counts), state);
        let handled = row.direct.call(request, state.clone());
        context.through(handled, state).await
    }
}

impl Shared {
    fn row(&self, request: &Request) -> Option<&Row> {
        self.rows.get(request.uri().path())?.iter().find(|row| row.method == *request.method())
    }
}

impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Front").field("rows", &self.0.rows.len()).finish_non_exhaustive()
    }
}
