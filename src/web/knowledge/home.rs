//! The search box on top of everything else; results take the place of the rest while somebody searches.

use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use domain::space::{AccessType, Space};
use serde::Deserialize;
use store::batch::BatchSummary;
use uuid::Uuid;

use super::add::Draft;
use super::found::{FoundRow, rows};
use super::{TAB, fault};
use crate::app::App;
use crate::http::knowledge::search::{SearchParams, find};
use crate::http::knowledge::spaces::SPACES_LISTED_MAX;
use crate::web::account::Owner;
use crate::web::{Moment, PageError, PageLayout, PageQuery, PageResult, page};

/// Batches that are listed.
const BATCHES_LISTED: usize = 8;
/// Documents that a search shows.
const FOUND_MAX: f64 = 20.0;
/// What a script names that wants the results alone.
const PART: &str = "x-part";

#[derive(Template)]
#[template(path = "knowledge/home.html")]
struct HomePage {
    frame: PageLayout,
    tab: &'static str,
    rag_url: String,
    note_bytes_max: usize,
    searched: Searched,
    spaces: Vec<SpaceRow>,
    /// Where things go that name no space.
    default_space: String,
    batches: Vec<BatchRow>,
    memories: u64,
    draft: Draft,
    /// Something was deleted just now.
    is_deleted: bool,
}

/// The results alone, for a script that searches while somebody types.
#[derive(Template)]
#[template(path = "knowledge/results.html")]
struct ResultsPart {
    frame: PageLayout,
    searched: Searched,
}

struct Searched {
    query: String,
    space: String,
    /// What is said of it: how many there are, or what is wrong.
    told: String,
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
pub async fn show(State(app): State<App>, owner: Owner, PageQuery(asking): PageQuery<Asking>) -> PageResult {
    let draft = Draft { space: asking.space.clone().unwrap_or_default(), ..Draft::default() };
    draw(&app, &owner, StatusCode::OK, asking, draft).await
}

/// `GET /knowledge/search`: the same page with results, or the results alone.
pub async fn search(
    State(app): State<App>,
    owner: Owner,
    headers: HeaderMap,
    PageQuery(asking): PageQuery<Asking>,
) -> PageResult {
    if !headers.contains_key(PART) {
        return draw(&app, &owner, StatusCode::OK, asking, Draft::default()).await;
    }
    let searched = Searched::by(&app, &owner, asking).await?;
    Ok(page(StatusCode::OK, &ResultsPart { frame: PageLayout::new(&app, Some(&owner.visitor)), searched }))
}

/// The page, with what was entered into its forms.
pub(super) async fn draw(app: &App, owner: &Owner, status: StatusCode, asking: Asking, draft: Draft) -> PageResult {
    let (store, now, page_error) = (&app.store, app.clock.now(), PageError::store(app));
    let is_deleted = asking.deleted.is_some();
    let (searched, spaces, batches, memories) = tokio::join!(
        Searched::by(app, owner, asking),
        store.spaces_of_account(&owner.account, SPACES_LISTED_MAX),
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
            frame: PageLayout::new(app, Some(&owner.visitor)),
            tab: TAB,
            rag_url: app.rag_url.clone(),
            note_bytes_max: app.settings.knowledge.batch.note_bytes_max,
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
    fn of(space: Space, owner: &Owner) -> Self {
        let others = space.owner != owner.account;
        let name = others.then(|| space.owner_name.clone().unwrap_or_else(|| "somebody else".into()));
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
    async fn by(app: &App, owner: &Owner, asking: Asking) -> Result<Self, PageError> {
        let (query, space) = (asking.q.unwrap_or_default().trim().to_owned(), asking.space.unwrap_or_default());
        let mut searched = Self { query, space, told: String::new(), is_fault: false, rows: Vec::new() };
        if searched.query.is_empty() {
            return Ok(searched);
        }
        let spaces = match searched.space.parse::<Uuid>() {
            Ok(space) => vec![space],
            Err(_) => Vec::new(),
        };
        let asked = SearchParams { query: searched.query.clone(), limit: Some(FOUND_MAX), threshold: None, spaces };
        match find(app, &owner.reader(), asked).await {
            Ok(found) => {
                searched.told = match found.len() {
                    0 => "Nothing answers this.".to_owned(),
                    1 => "1 answer".to_owned(),
                    count => format!("{count} answers, the most similar first"),
                };
                searched.rows = rows(found, &searched.query, app);
            }
            Err(error) => {
                searched.told = fault(&error).ok_or_else(|| PageError::api(app, &error))?;
                searched.is_fault = true;
            }
        }
        Ok(searched)
    }
}
