//! `/docs`: the machine-readable description, for people.

mod reference;

use std::sync::{Arc, OnceLock};

use api::HttpState;
use api::openapi::Description;
use askama::Template;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{self, MethodRouter};

pub use self::reference::{DocumentedError, DocumentedOperation, Member, OperationGroup, Part, Reference, Success};
use super::{PageLayout, Site, Visitor, page as rendered};

#[derive(Template)]
#[template(path = "docs.html")]
struct DocsPage<'d> {
    frame: PageLayout,
    reference: &'d Reference,
    base_url: &'d str,
}

/// The reference, read from the description by the first request.
#[derive(Debug, Clone, Default)]
struct ReferenceCache(Arc<OnceLock<Reference>>);

/// `GET /docs`, with a cache of its own.
pub fn page() -> MethodRouter<HttpState> {
    routing::get(show).layer(Extension(ReferenceCache::default()))
}

async fn show(
    State(site): State<Site>,
    State(description): State<Arc<Description>>,
    Extension(ReferenceCache(cache)): Extension<ReferenceCache>,
    Visitor(visitor): Visitor,
) -> Response {
    let frame = PageLayout::new(&site, visitor.as_ref());
    let reference = cache.get_or_init(|| Reference::new(&description.document, &Description::order()));
    rendered(StatusCode::OK, &DocsPage { frame, reference, base_url: &site.urls.base })
}
