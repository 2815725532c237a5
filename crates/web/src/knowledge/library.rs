//! Library: the memories of the account and its spaces, the newest first.

use api::HttpState;
use app::services::knowledge::library::ListParams;
use app::services::knowledge::{Memories, Spaces};
use askama::Template;
use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

use super::row::{MemoryRow, SpaceRow, names};
use super::{TAB, page_error};
use crate::account::AccountOwner;
use crate::{PageError, PageLayout, PageQuery, PageResult, Site, page};

/// Number of memories on a page.
const LISTED: usize = 30;
/// Maximum number of tags that are offered as filters.
const TAGS_SHOWN: usize = 12;

/// The state of the library.
#[derive(Debug, Clone)]
pub struct LibraryPages {
    pub(super) site: Site,
    pub(super) spaces: Spaces,
    pub(super) memories: Memories,
}

impl FromRef<HttpState> for LibraryPages {
    fn from_ref(state: &HttpState) -> Self {
        Self { site: Site::from_ref(state), spaces: FromRef::from_ref(state), memories: FromRef::from_ref(state) }
    }
}

/// The filters in the URL: empty means all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LibraryQuery {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) space: String,
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    tag: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    day: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    cursor: String,
}

impl LibraryQuery {
    /// The query of the URL with these filters.
    pub(super) fn end(&self) -> String {
        let query = serde_urlencoded::to_string(self).unwrap_or_default();
        if query.is_empty() { query } else { format!("?{query}") }
    }

    /// The selection by the filters; invalid values, such as in an edited URL, are ignored.
    fn params(&self) -> ListParams {
        ListParams {
            space: self.space.parse().ok(),
            kind: self.kind.parse().ok(),
            tag: self.tag.parse().ok(),
            day: self.day.parse().ok(),
            cursor: self.cursor.parse().ok(),
            limit: Some(LISTED),
        }
    }

    fn is_filtered(&self) -> bool {
        *self != Self { cursor: self.cursor.clone(), ..Self::default() }
    }
}

#[derive(Template)]
#[template(path = "knowledge/library.html")]
struct LibraryPage {
    frame: PageLayout,
    tab: &'static str,
    view: &'static str,
    query: LibraryQuery,
    kinds: Vec<KindOption>,
    spaces: Vec<SpaceRow>,
    tags: Vec<TagChip>,
    memories: Vec<MemoryRow>,
    /// The number of all memories of the account.
    kept: u64,
    /// The query of the URL of the next page.
    next: Option<String>,
}

/// A filter by a type.
struct KindOption {
    value: &'static str,
    name: &'static str,
    is_on: bool,
}

/// A filter by a tag.
struct TagChip {
    text: String,
    count: u64,
    is_on: bool,
    /// The query of the URL that sets or removes the filter.
    end: String,
}

impl LibraryPage {
    /// The name of the listed space.
    fn place(&self) -> Option<&str> {
        let row = self.spaces.iter().find(|row| row.space.id.to_string() == self.query.space)?;
        Some(row.space.name.as_str())
    }
}

/// `GET /knowledge/library`
pub async fn show(
    State(pages): State<LibraryPages>,
    owner: AccountOwner,
    PageQuery(query): PageQuery<LibraryQuery>,
) -> PageResult {
    let site = &pages.site;
    let (access, now, params) = (owner.access(), site.ports.clock.now(), query.params());
    let (spaces, listed, tags, kept) = tokio::join!(
        pages.spaces.list(&owner.account),
        pages.memories.list(&access, &params),
        pages.memories.tags(&access),
        pages.memories.kept(&owner.account),
    );
    let failed = page_error(site, &owner.visitor);
    let (spaces, _) = SpaceRow::all(spaces.map_err(PageError::of(site))?, &owner);
    let listed = listed.map_err(&failed)?;
    let names = names(&spaces);
    let chip = |(tag, count): (domain::memory::Tag, u64)| {
        let is_on = query.tag == tag.as_str();
        let text = tag.to_string();
        let chosen = if is_on { String::new() } else { text.clone() };
        let end = LibraryQuery { tag: chosen, cursor: String::new(), ..query.clone() }.end();
        TagChip { text, count, is_on, end }
    };
    Ok(page(
        StatusCode::OK,
        &LibraryPage {
            frame: PageLayout::new(site, Some(&owner.visitor)),
            tab: TAB,
            view: "library",
            kinds: [("page", "Pages"), ("note", "Notes"), ("document", "Documents")]
                .into_iter()
                .map(|(value, name)| KindOption { value, name, is_on: query.kind == value })
                .collect(),
            tags: tags.map_err(&failed)?.into_iter().take(TAGS_SHOWN).map(chip).collect(),
            memories: listed.memories.into_iter().map(|memory| MemoryRow::of(memory, &names, &owner, now)).collect(),
            kept: kept.map_err(PageError::of(site))?,
            next: listed.next.map(|id| LibraryQuery { cursor: id.to_string(), ..query.clone() }.end()),
            spaces,
            query,
        },
    ))
}
