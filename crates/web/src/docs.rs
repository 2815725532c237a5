//! `/docs`: the machine-readable description, for people.

pub mod guides;
mod reference;
mod samples;
mod schema;

use std::sync::{Arc, OnceLock};

use api::HttpState;
use api::openapi::Description;
use askama::Template;
use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{self, MethodRouter};

pub use self::reference::{DocumentedError, DocumentedOperation, OperationGroup, Reference, Success};
pub use self::samples::CodeSample;
pub use self::schema::{Member, Part};
use super::compressed::Compressed;
use super::frame::{framed, unrendered};
use super::{PageLayout, Site, Visitor};

#[derive(Template)]
#[template(path = "docs.html")]
struct DocsPage<'d> {
    frame: PageLayout,
    reference: &'d Reference,
    base_url: &'d str,
}

/// The reference, which the first request reads from the description, and the page of visitors who are not signed in.
#[derive(Debug, Clone, Default)]
struct ReferenceCache(Arc<Cached>);

#[derive(Debug, Default)]
struct Cached {
    reference: OnceLock<Reference>,
    for_visitors: OnceLock<Compressed>,
}

/// `GET /docs`, with its own cache.
pub fn page() -> MethodRouter<HttpState> {
    routing::get(show).layer(Extension(ReferenceCache::default()))
}

async fn show(
    State(site): State<Site>,
    State(description): State<Arc<Description>>,
    Extension(ReferenceCache(cache)): Extension<ReferenceCache>,
    headers: HeaderMap,
    Visitor(visitor): Visitor,
) -> Response {
    let reference = cache.reference.get_or_init(|| Reference::new(description.document(), &Description::order()));
    let cached = cache.for_visitors.get().filter(|_| visitor.is_none()).cloned();
    let page = cached.map_or_else(
        || {
            let frame = PageLayout::new(&site, visitor.as_ref());
            DocsPage { frame, reference, base_url: &site.urls.base }.render().map(Compressed::new)
        },
        Ok,
    );
    framed(match page {
        Ok(page) => {
            if visitor.is_none() {
                cache.for_visitors.get_or_init(|| page.clone());
            }
            ([(CONTENT_TYPE, HTML)], page.answer(&headers)).into_response()
        }
        Err(error) => unrendered(&error),
    })
}

const HTML: &str = "text/html; charset=utf-8";
