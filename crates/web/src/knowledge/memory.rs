//! One memory: its text, its source, its spaces, and a form that deletes it.

use api::HttpState;
use api::named::Named;
use app::services::knowledge::memories::Memory;
use app::services::knowledge::{Memories, Spaces};
use askama::Template;
use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use domain::ids::MemoryId;

use super::found::titled;
use super::{SpaceLink, TAB, gone, links, page_error};
use crate::account::AccountOwner;
use crate::account::undo::{ConfirmForm, UndoPage, lines};
use crate::{Moment, PageError, PageForm, PageLayout, PageResult, Site, markdown, page};

/// Maximum number of shown characters.
const TEXT_CHARS_MAX: usize = 100_000;

/// The state of these pages.
#[derive(Debug, Clone)]
pub struct MemoryPages {
    pub(super) site: Site,
    pub(super) memories: Memories,
    pub(super) spaces: Spaces,
}

impl FromRef<HttpState> for MemoryPages {
    fn from_ref(state: &HttpState) -> Self {
        Self { site: Site::from_ref(state), memories: FromRef::from_ref(state), spaces: FromRef::from_ref(state) }
    }
}

impl MemoryPages {
    /// A memory that the person may read.
    async fn visible(&self, owner: &AccountOwner, id: &str) -> Result<Memory, PageError> {
        let id: MemoryId = id.parse().map_err(|_| gone(&self.site, &owner.visitor))?;
        self.memories.find(&owner.access(), id).await.map_err(page_error(&self.site, &owner.visitor))
    }

    /// A memory that the person may change and delete.
    pub(super) async fn owned(&self, owner: &AccountOwner, id: &str) -> Result<Memory, PageError> {
        let memory = self.visible(owner, id).await?;
        if memory.account == owner.account { Ok(memory) } else { Err(gone(&self.site, &owner.visitor)) }
    }
}

#[derive(Template)]
#[template(path = "knowledge/memory.html")]
struct MemoryPage {
    frame: PageLayout,
    tab: &'static str,
    id: String,
    title: String,
    kind: &'static str,
    url: Option<String>,
    added: Moment,
    changed: Option<Moment>,
    spaces: Vec<SpaceLink>,
    tags: Vec<String>,
    /// The text as HTML, with all foreign content escaped.
    html: String,
    /// Whether the text is truncated.
    is_cut: bool,
    is_ours: bool,
}

/// `GET /knowledge/memories/{id}`
pub async fn show(State(pages): State<MemoryPages>, owner: AccountOwner, Named(id): Named) -> PageResult {
    let memory = pages.visible(&owner, &id).await?;
    let site = &pages.site;
    let now = site.ports.clock.now();
    let end = memory.content.char_indices().nth(TEXT_CHARS_MAX).map(|(at, _)| at);
    let mut text = memory.content;
    text.truncate(end.unwrap_or(text.len()));
    Ok(page(
        StatusCode::OK,
        &MemoryPage {
            frame: PageLayout::new(&pages.site, Some(&owner.visitor)),
            tab: TAB,
            id: memory.id.to_string(),
            title: titled(memory.title),
            kind: memory.kind.as_str(),
            url: memory.url,
            added: Moment::new(memory.created_at, now),
            changed: (memory.updated_at > memory.created_at).then(|| Moment::new(memory.updated_at, now)),
            spaces: links(&pages.site, &pages.spaces, &owner.account, &memory.spaces).await?,
            tags: memory.tags.iter().map(ToString::to_string).collect(),
            html: markdown::html(&text),
            is_cut: end.is_some(),
            is_ours: memory.account == owner.account,
        },
    ))
}

/// `GET /knowledge/memories/{id}/delete`
pub async fn question(State(pages): State<MemoryPages>, owner: AccountOwner, Named(id): Named) -> PageResult {
    let memory = pages.owned(&owner, &id).await?;
    let places = links(&pages.site, &pages.spaces, &owner.account, &memory.spaces).await?;
    let places: Vec<String> = places.into_iter().map(|space| space.name).collect();
    let mut lost = lines(["Its text: from now on, neither you nor your agents can find it."]);
    if !places.is_empty() {
        lost.push(format!("Its place in {}, also for everyone else who reads there.", places.join(", ")));
    }
    let kept = match memory.url {
        Some(_) => lines(["The page on the web, which can be added again.", OTHERS]),
        None => lines([OTHERS]),
    };
    let frame = PageLayout::new(&pages.site, Some(&owner.visitor));
    Ok(page(
        StatusCode::OK,
        &UndoPage {
            tab: TAB,
            title: "Delete this memory?".into(),
            subject: titled(memory.title),
            lost,
            kept,
            button: "Delete permanently",
            action: format!("{}/knowledge/memories/{id}/delete", frame.root),
            keep: format!("{}/knowledge/memories/{id}", frame.root),
            frame,
        },
    ))
}

const OTHERS: &str = "Your other memories and your spaces.";

/// `POST /knowledge/memories/{id}/delete`
pub async fn delete(
    State(pages): State<MemoryPages>,
    owner: AccountOwner,
    Named(id): Named,
    PageForm(ConfirmForm {}): PageForm<ConfirmForm>,
) -> PageResult {
    let site = &pages.site;
    let id: MemoryId = id.parse().map_err(|_| gone(site, &owner.visitor))?;
    pages.memories.delete(&owner.access(), id).await.map_err(page_error(site, &owner.visitor))?;
    Ok(site.to("/knowledge/library", "The memory is deleted."))
}
