//! `/docs/guides`: the documents that this binary was built with, and a search over them and over the operations of the API.

mod library;
mod search;

use std::sync::Arc;

use api::openapi::Description;
use askama::Template;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;

use self::library::LIBRARY;
pub use self::library::{Guide, GuideGroup};
pub use self::search::FoundSection;
use crate::{PageError, PageErrorTexts, PageLayout, PageQuery, PageResult, SignedIn, Site, Visitor, page};

/// `?q=…`
#[derive(Debug, Default, Deserialize)]
pub struct GuidesQuery {
    q: Option<String>,
}

#[derive(Template)]
#[template(path = "guides.html")]
struct GuidesPage<'g> {
    frame: PageLayout,
    groups: &'g [GuideGroup],
    query: &'g str,
    /// The results of a search; `None` without one.
    found: Option<Vec<FoundSection<'g>>>,
    /// The guide that is shown; `None` for the list and for results.
    guide: Option<&'g Guide>,
    version: &'static str,
}

impl GuidesPage<'_> {
    /// The page with the list of all guides.
    fn new(site: &Site, visitor: Option<&SignedIn>) -> Self {
        Self {
            frame: PageLayout::new(site, visitor),
            groups: LIBRARY.groups(),
            query: "",
            found: None,
            guide: None,
            version: env!("CARGO_PKG_VERSION"),
        }
    }

    fn is_shown(&self, one: &Guide) -> bool {
        self.guide.is_some_and(|guide| guide.name == one.name)
    }
}

/// `GET /docs/guides`: the list, or the results of a search.
pub async fn show(
    State(site): State<Site>,
    State(description): State<Arc<Description>>,
    Visitor(visitor): Visitor,
    PageQuery(GuidesQuery { q }): PageQuery<GuidesQuery>,
) -> Response {
    let query = q.as_deref().unwrap_or_default().trim();
    let found = (!query.is_empty()).then(|| search::find(query, LIBRARY.sections(), description.document()));
    page(StatusCode::OK, &GuidesPage { query, found, ..GuidesPage::new(&site, visitor.as_ref()) })
}

/// `GET /docs/guides/{name}`.
pub async fn show_one(State(site): State<Site>, Visitor(visitor): Visitor, Path(name): Path<String>) -> PageResult {
    let Some(guide) = LIBRARY.guide(&name) else {
        let texts = PageErrorTexts {
            title: "No such guide",
            text: "This version of the server has no guide of this name.",
            next: "Search the guides, or choose one from the list.",
            link: "/docs/guides".into(),
            label: "The guides",
        };
        return Err(PageError::shown(&site, visitor.as_ref(), StatusCode::NOT_FOUND, texts));
    };
    let page_of = GuidesPage { guide: Some(guide), ..GuidesPage::new(&site, visitor.as_ref()) };
    Ok(page(StatusCode::OK, &page_of))
}
