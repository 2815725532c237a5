//! One memory: its text, where it is from, which spaces it is in, and how to delete it.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use store::memory::Memory;

use super::found::titled;
use super::{SpaceLink, TAB, gone, links, page_error};
use crate::app::App;
use crate::http::knowledge::memories::{forget, seen};
use crate::http::named::Named;
use crate::web::account::Owner;
use crate::web::account::undo::{ConfirmForm, UndoPage, lines};
use crate::web::{Moment, PageError, PageForm, PageLayout, PageResult, page};

/// Characters that are shown.
const TEXT_CHARS_MAX: usize = 100_000;

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
    text: String,
    /// Whether there is more than is shown.
    is_cut: bool,
    is_ours: bool,
}

/// `GET /knowledge/memories/{id}`
pub async fn show(State(app): State<App>, owner: Owner, Named(id): Named) -> PageResult {
    let memory = seen(&app, &owner.reader(), &id).await.map_err(page_error(&app, &owner.visitor))?;
    let now = app.clock.now();
    let end = memory.content.char_indices().nth(TEXT_CHARS_MAX).map(|(at, _)| at);
    let mut text = memory.content;
    text.truncate(end.unwrap_or(text.len()));
    Ok(page(
        StatusCode::OK,
        &MemoryPage {
            frame: PageLayout::new(&app, Some(&owner.visitor)),
            tab: TAB,
            id: memory.id.to_string(),
            title: titled(memory.title),
            kind: memory.kind.as_str(),
            url: memory.url,
            added: Moment::new(memory.created_at, now),
            changed: (memory.updated_at > memory.created_at).then(|| Moment::new(memory.updated_at, now)),
            spaces: links(&app, &owner.account, &memory.spaces).await?,
            text,
            is_cut: end.is_some(),
            is_ours: memory.account == owner.account,
        },
    ))
}

/// `GET /knowledge/memories/{id}/delete`
pub async fn question(State(app): State<App>, owner: Owner, Named(id): Named) -> PageResult {
    let memory = ours(&app, &owner, &id).await?;
    let places = links(&app, &owner.account, &memory.spaces).await?;
    let places: Vec<String> = places.into_iter().map(|space| space.name).collect();
    let mut lost = lines(["Its text: neither you nor your agents find it again, at once and for ever."]);
    if !places.is_empty() {
        lost.push(format!("Its place in {}, also for everybody else who reads there.", places.join(", ")));
    }
    let kept = match memory.url {
        Some(_) => lines(["The page itself stays where it is on the web, and can be added again.", OTHERS]),
        None => lines([OTHERS]),
    };
    let frame = PageLayout::new(&app, Some(&owner.visitor));
    Ok(page(
        StatusCode::OK,
        &UndoPage {
            tab: TAB,
            title: "Delete this memory?".into(),
            subject: titled(memory.title),
            lost,
            kept,
            button: "Delete it for ever",
            action: format!("{}/knowledge/memories/{id}/delete", frame.root),
            keep: format!("{}/knowledge/memories/{id}", frame.root),
            frame,
        },
    ))
}

const OTHERS: &str = "Your other memories and your spaces are not touched.";

/// `POST /knowledge/memories/{id}/delete`
pub async fn delete(
    State(app): State<App>,
    owner: Owner,
    Named(id): Named,
    PageForm(ConfirmForm {}): PageForm<ConfirmForm>,
) -> PageResult {
    forget(&app, &owner.reader(), &id).await.map_err(page_error(&app, &owner.visitor))?;
    Ok(Redirect::to(&format!("{}/knowledge?deleted=1", app.root_path())).into_response())
}

/// A memory that the account may delete.
async fn ours(app: &App, owner: &Owner, id: &str) -> Result<Memory, PageError> {
    let memory = seen(app, &owner.reader(), id).await.map_err(page_error(app, &owner.visitor))?;
    if memory.account == owner.account { Ok(memory) } else { Err(gone(app, &owner.visitor)) }
}
