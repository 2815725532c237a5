//! The search box and the overview; results replace the overview while a person searches.

use api::HttpState;
use app::services::knowledge::search::SearchParams;
use app::services::knowledge::{Batches, KnowledgeSearch, Spaces};
use askama::Template;
use axum::extract::{FromRef, State};
use axum::http::{HeaderMap, StatusCode};
use domain::space::{AccessType, Space};
use serde::Deserialize;
use store::batch::BatchSummary;
use uuid::Uuid;

use super::found::{FoundRow, rows};
use super::{TAB, fault};
use crate::account::AccountOwner;
use crate::{Moment, PageError, PageLayout, PageQuery, PageResult, Site, page};

/// Batches that are listed.
const BATCHES_LISTED: usize = 8;
/// Documents that a search shows.
const FOUND_MAX: f64 = 20.0;
/// The header with which a script requests the results only.
const PART: &str = "x-part";

/// The state of this page.
#[derive(Debug, Clone)]
pub struct HomePages {
    site: Site,
    spaces: Spaces,
    search: KnowledgeSearch,
    batches: Batches,
}

impl FromRef<HttpState> for HomePages {
    fn from_ref(state: &HttpState) -> Self {
        Self {
            site: Site::from_ref(state),
            spaces: FromRef::from_ref(state),
            search: FromRef::from_ref(state),
            batches: FromRef::from_ref(state),
        }
    }
}

impl HomePages {
    /// The state that every page uses.
    pub(super) fn site(&self) -> &Site {
        &self.site
    }
}

/// The input in the forms of the page.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub addresses: String,
    pub title: String,
    pub text: String,
    pub space: String,
    /// The fault in the fields above.
    pub fault: Option<String>,
    /// The name of a new space.
    pub space_name: String,
    /// The fault in that name.
    pub space_fault: Option<String>,
}

#[derive(Template)]
#[template(path = "knowledge/home.html")]
struct HomePage {
    frame: PageLayout,
    tab: &'static str,
    rag_url: String,
    note_bytes_max: usize,
    searched: Searched,
    spaces: Vec<SpaceRow>,
    /// Name of the space for items without a named space.
    default_space: String,
    batches: Vec<BatchRow>,
    memories: u64,
    draft: Draft,
    /// Something was deleted just now.
    is_deleted: bool,
}

/// The results alone, for a script that searches while a person types.
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
}

struct SpaceRow {
    space: Space,
    /// Whose it is, if it is not theirs.
    owner: Option<String>,
}

struct BatchRow {
    id: String,
    total: usize,
    processed: usize,
    is_running: bool,
    created: Moment,
}

/// `?q=…&space=…&deleted=…`
#[derive(Debug, Default, Deserialize)]
pub struct Asking {
    deleted: Option<String>,
    q: Option<String>,
    space: Option<String>,
}

/// `GET /knowledge`
pub async fn show(
    State(pages): State<HomePages>,
    owner: AccountOwner,
    PageQuery(asking): PageQuery<Asking>,
) -> PageResult {
    let draft = Draft { space: asking.space.clone().unwrap_or_default(), ..Draft::default() };
    draw(&pages, &owner, StatusCode::OK, asking, draft).await
}

/// `GET /knowledge/search`: the same page with results, or the results alone.
pub async fn search(
    State(pages): State<HomePages>,
    owner: AccountOwner,
    headers: HeaderMap,
    PageQuery(asking): PageQuery<Asking>,
) -> PageResult {
    if !headers.contains_key(PART) {
        return draw(&pages, &owner, StatusCode::OK, asking, Draft::default()).await;
    }
    let searched = Searched::by(&pages, &owner, asking).await?;
    Ok(page(StatusCode::OK, &ResultsPart { frame: PageLayout::new(&pages.site, Some(&owner.visitor)), searched }))
}

/// Renders the page with the input in its forms.
pub(super) async fn draw(
    pages: &HomePages,
    owner: &AccountOwner,
    status: StatusCode,
    asking: Asking,
    draft: Draft,
) -> PageResult {
    let site = &pages.site;
    let (store, now, page_error) = (&site.ports.store, site.ports.clock.now(), PageError::store(site));
    let is_deleted = asking.deleted.is_some();
    let (searched, spaces, batches, memories) = tokio::join!(
        Searched::by(pages, owner, asking),
        pages.spaces.list(&owner.account),
        store.batches_of_account(&owner.account, BATCHES_LISTED),
        store.memories_kept(&owner.account),
    );
    let spaces = spaces.map_err(&page_error)?;
    let mut spaces: Vec<SpaceRow> = spaces.into_iter().map(|space| SpaceRow::of(space, owner)).collect();
    let default = spaces.iter().find(|row| row.is_default());
    let default = default.map_or(domain::space::DEFAULT_NAME, |row| row.space.name.as_str()).to_owned();
    spaces.sort_by_key(|row| !row.space.is_favorite);
    let batch = |batch: BatchSummary| BatchRow {
        id: batch.id.to_string(),
        total: batch.total,
        processed: batch.processed,
        is_running: batch.is_running,
        created: Moment::new(batch.created_at, now),
    };
    Ok(page(
        status,
        &HomePage {
            frame: PageLayout::new(site, Some(&owner.visitor)),
            tab: TAB,
            rag_url: site.urls.rag.clone(),
            note_bytes_max: pages.batches.note_bytes_max(),
            searched: searched?,
            spaces,
            default_space: default,
            batches: batches.map_err(&page_error)?.into_iter().map(batch).collect(),
            memories: memories.map_err(&page_error)?,
            draft,
            is_deleted,
        },
    ))
}

impl SpaceRow {
    fn of(space: Space, owner: &AccountOwner) -> Self {
        let others = space.owner != owner.account;
        let name = others.then(|| space.owner_name.clone().unwrap_or_else(|| "another person".into()));
        Self { space, owner: name }
    }

    /// Whether this is where things go that name no space.
    fn is_default(&self) -> bool {
        self.space.is_default && self.owner.is_none()
    }

    fn is_writable(&self) -> bool {
        self.space.access >= AccessType::Edit
    }
}

impl Searched {
    async fn by(pages: &HomePages, owner: &AccountOwner, asking: Asking) -> Result<Self, PageError> {
        let (query, space) = (asking.q.unwrap_or_default().trim().to_owned(), asking.space.unwrap_or_default());
        let mut searched = Self { query, space, status: String::new(), is_fault: false, rows: Vec::new() };
        if searched.query.is_empty() {
            return Ok(searched);
        }
        let spaces = match searched.space.parse::<Uuid>() {
            Ok(space) => vec![space],
            Err(_) => Vec::new(),
        };
        let params = SearchParams { query: searched.query.clone(), limit: Some(FOUND_MAX), threshold: None, floor: true, spaces };
        match pages.search.find(&owner.access(), params).await {
            Ok(found) => {
                searched.status = match found.len() {
                    0 => "No results.".to_owned(),
                    1 => "1 answer".to_owned(),
                    count => format!("{count} results, the most similar first"),
                };
                searched.rows = rows(found, &searched.query, pages.site.ports.clock.now(), pages.search.words_max());
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
