//! Search: the search box, and the newest memories; results replace them while a person types.

use api::HttpState;
use app::services::knowledge::library::ListParams;
use app::services::knowledge::search::SearchParams;
use app::services::knowledge::{KnowledgeSearch, Memories, Spaces};
use askama::Template;
use axum::extract::{FromRef, State};
use axum::http::{HeaderMap, StatusCode};
use domain::fit::{self, Fit};
use serde::Deserialize;
use uuid::Uuid;

use super::found::{FoundRow, rows};
use super::row::{MemoryRow, SpaceNames, SpaceRow, names};
use super::{TAB, fault, page_error};
use crate::account::AccountOwner;
use crate::{PageError, PageLayout, PageQuery, PageResult, Site, page};

/// Number of listed memories without a search.
const NEWEST: usize = 5;
/// Maximum number of documents in the results.
const FOUND_MAX: f64 = 20.0;
/// The header with which a script requests the results only.
const PART: &str = "x-part";

/// The state of this page.
#[derive(Debug, Clone)]
pub struct HomePages {
    site: Site,
    spaces: Spaces,
    search: KnowledgeSearch,
    memories: Memories,
}

impl FromRef<HttpState> for HomePages {
    fn from_ref(state: &HttpState) -> Self {
        Self {
            site: Site::from_ref(state),
            spaces: FromRef::from_ref(state),
            search: FromRef::from_ref(state),
            memories: FromRef::from_ref(state),
        }
    }
}

#[derive(Template)]
#[template(path = "knowledge/home.html")]
struct HomePage {
    frame: PageLayout,
    tab: &'static str,
    view: &'static str,
    searched: Searched,
    spaces: Vec<SpaceRow>,
    newest: Vec<MemoryRow>,
    memories: u64,
}

/// The results without the page, for a script that searches while a person types.
#[derive(Template)]
#[template(path = "knowledge/results.html")]
struct ResultsPart {
    frame: PageLayout,
    searched: Searched,
}

struct Searched {
    query: String,
    space: String,
    /// The number of results, or the fault of the query.
    status: String,
    is_fault: bool,
    rows: Vec<FoundRow>,
    /// Results with much less similarity than the best.
    folded: Vec<FoundRow>,
}

/// `?q=…&space=…`
#[derive(Debug, Default, Deserialize)]
pub struct SearchPageQuery {
    q: Option<String>,
    space: Option<String>,
}

/// `GET /knowledge`
pub async fn show(
    State(pages): State<HomePages>,
    owner: AccountOwner,
    PageQuery(query): PageQuery<SearchPageQuery>,
) -> PageResult {
    draw(&pages, &owner, query).await
}

/// `GET /knowledge/search`: the same page with results, or only the results.
pub async fn search(
    State(pages): State<HomePages>,
    owner: AccountOwner,
    headers: HeaderMap,
    PageQuery(query): PageQuery<SearchPageQuery>,
) -> PageResult {
    if !headers.contains_key(PART) {
        return draw(&pages, &owner, query).await;
    }
    let spaces = pages.spaces.list(&owner.account).await.map_err(PageError::of(&pages.site))?;
    let (spaces, _) = SpaceRow::all(spaces, &owner);
    let searched = Searched::by(&pages, &owner, query, &names(&spaces)).await?;
    Ok(page(StatusCode::OK, &ResultsPart { frame: PageLayout::new(&pages.site, Some(&owner.visitor)), searched }))
}

async fn draw(pages: &HomePages, owner: &AccountOwner, query: SearchPageQuery) -> PageResult {
    let site = &pages.site;
    let (now, page_failed) = (site.ports.clock.now(), PageError::of(site));
    let (access, newest) = (owner.access(), ListParams { limit: Some(NEWEST), ..ListParams::default() });
    let (spaces, newest, memories) = tokio::join!(
        pages.spaces.list(&owner.account),
        pages.memories.list(&access, &newest),
        pages.memories.kept(&owner.account),
    );
    let (spaces, _) = SpaceRow::all(spaces.map_err(&page_failed)?, owner);
    let names = names(&spaces);
    let newest = newest.map_err(page_error(site, &owner.visitor))?.memories;
    Ok(page(
        StatusCode::OK,
        &HomePage {
            frame: PageLayout::new(site, Some(&owner.visitor)),
            tab: TAB,
            view: "search",
            searched: Searched::by(pages, owner, query, &names).await?,
            newest: newest.into_iter().map(|memory| MemoryRow::of(memory, &names, owner, now)).collect(),
            spaces,
            memories: memories.map_err(&page_failed)?,
        },
    ))
}

impl Searched {
    async fn by(
        pages: &HomePages,
        owner: &AccountOwner,
        asked: SearchPageQuery,
        names: &SpaceNames,
    ) -> Result<Self, PageError> {
        let (query, space) = (asked.q.unwrap_or_default().trim().to_owned(), asked.space.unwrap_or_default());
        let mut searched =
            Self { query, space, status: String::new(), is_fault: false, rows: Vec::new(), folded: Vec::new() };
        if searched.query.is_empty() {
            return Ok(searched);
        }
        let spaces = match searched.space.parse::<Uuid>() {
            Ok(space) => vec![space],
            Err(_) => Vec::new(),
        };
        let query = searched.query.clone();
        let params = SearchParams { query, limit: Some(FOUND_MAX), threshold: None, spaces };
        match pages.search.find(&owner.access(), params).await {
            Ok(found) => {
                let now = pages.site.ports.clock.now();
                searched.rows = rows(found, &searched.query, names, now);
                searched.folded = searched.rows.split_off(fit::shown(searched.rows.iter().map(|row| row.similarity)));
                searched.status = status(&searched.rows);
            }
            Err(error) => {
                let Some(fault) = fault(&error) else { return Err(PageError::of(&pages.site)(error)) };
                searched.status = fault;
                searched.is_fault = true;
            }
        }
        Ok(searched)
    }
}

/// What a person reads above the results, and a screen reader aloud.
fn status(rows: &[FoundRow]) -> String {
    let Some(best) = rows.first() else { return "No results.".to_owned() };
    match (rows.len(), best.fit) {
        (1, Fit::Loose) => "Nothing fits well. The nearest one:".to_owned(),
        (count, Fit::Loose) => format!("Nothing fits well. The nearest {count}:"),
        (1, _) => "1 result".to_owned(),
        (count, _) => format!("{count} results, the most similar first"),
    }
}
