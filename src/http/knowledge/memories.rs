//! Memories, one by one and all of them.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use bytes::Bytes;
use domain::ids::MemoryId;
use futures_util::stream;
use serde_json::json;
use store::memory::{Memory, MemoryScope, Unlink};
use wire::Done;

use super::error::KnowledgeResult;
use super::search::url_of;
use super::{KnowledgeKey, ToSearch, ToWrite};
use crate::app::App;
use crate::http::body;
use crate::http::error::{ApiError, Code};
use crate::http::named::Named;
use crate::knowledge::KnowledgeAccess;
use crate::knowledge::credential::while_good;

/// Memories that are read at once for an export.
const PAGE: usize = 20;

/// Characters of a memory that an answer carries: all of them.
const CONTENT_WHOLE: u32 = i32::MAX.unsigned_abs();

/// `GET /v1/memories/{id}`: one memory with its whole text and its spaces.
pub async fn show(
    State(app): State<App>,
    KnowledgeKey(reader, _): KnowledgeKey<ToSearch>,
    Named(id): Named,
) -> KnowledgeResult {
    let memory = seen(&app, &reader, &id).await?;
    Ok(body::answer(&described(memory, &reader, &app))?)
}

/// `DELETE /v1/memories/{id}`: `{ok: true}`; gone from every space, or from every space that a key for certain spaces covers.
pub async fn delete(
    State(app): State<App>,
    KnowledgeKey(reader, _): KnowledgeKey<ToWrite>,
    Named(id): Named,
) -> KnowledgeResult {
    forget(&app, &reader, &id).await?;
    Ok(body::answer(&Done::OK)?)
}

/// Deletes a memory of the reader's account. A key for certain spaces takes it out of those, and deletes it when it is in no other.
pub async fn forget(app: &App, reader: &KnowledgeAccess, id: &str) -> Result<(), ApiError> {
    let memory = seen(app, reader, id).await?;
    let (store, account) = (app.store.clone(), reader.account.clone());
    let within = reader.within.clone();
    let deleted = actors::detached(async move {
        match within {
            Some(spaces) => Ok(store.memory_unlink(memory.id, &account, &spaces).await? != Unlink::NotThere),
            None => store.memory_delete(memory.id, &account).await,
        }
    });
    if deleted.await?? { Ok(()) } else { Err(Code::NotFound.into()) }
}

/// A memory that the reader may see.
pub async fn seen(app: &App, reader: &KnowledgeAccess, id: &str) -> Result<Memory, ApiError> {
    let id: MemoryId = id.parse().map_err(|_| Code::NotFound)?;
    let own = reader.to_search(&[], app).await?;
    if let Some(memory) = app.store.memory_by_id(id, &own).await? {
        return Ok(memory);
    }
    // What others keep in spaces that the account was let into can be read there too.
    let spaces = app.store.spaces_of_account(&reader.account, super::spaces::SPACES_LISTED_MAX).await?;
    let mut spaces: Vec<_> = spaces.into_iter().map(|space| space.id).filter(|space| reader.covers(*space)).collect();
    // And so can what a search in a stranger's public space finds.
    if reader.within.is_none() {
        spaces.extend(app.store.spaces_public_of(id).await?);
    }
    let scope = MemoryScope::Spaces(spaces);
    let mut memory = app.store.memory_by_id(id, &scope).await?.ok_or(Code::NotFound)?;
    // Where else its owner keeps it is nobody else's business.
    if let MemoryScope::Spaces(spaces) = scope {
        memory.spaces.retain(|space| spaces.contains(space));
    }
    Ok(memory)
}

/// `GET /v1/export`: everything that a search without spaces would find, one JSON object a line, oldest first.
pub async fn export(State(app): State<App>, KnowledgeKey(reader, _): KnowledgeKey<ToSearch>) -> KnowledgeResult {
    let scope = reader.to_search(&[], &app).await?;
    let credential = reader.credential.clone();
    let begun = Pages { app: app.clone(), reader, scope, after: None, done: false };
    let pages = stream::unfold(begun, |pages| async move { pages.next().await });
    let pages = while_good(app, credential, pages, Err(ExportError::Revoked));
    let headers = [(CONTENT_TYPE, "application/x-ndjson"), (CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(pages)).into_response())
}

struct Pages {
    app: App,
    reader: KnowledgeAccess,
    scope: MemoryScope,
    after: Option<MemoryId>,
    done: bool,
}

impl Pages {
    async fn next(mut self) -> Option<(Result<Bytes, ExportError>, Self)> {
        if self.done {
            return None;
        }
        let page = match self.app.store.memories_of(&self.scope, self.after, PAGE, CONTENT_WHOLE).await {
            Ok(page) => page,
            Err(error) => {
                self.done = true;
                tracing::error!(error = domain::reasons(&error), "an export was cut off");
                // The connection breaks, so that nobody takes what came for everything.
                return Some((Err(ExportError::Store), self));
            }
        };
        self.after = Some(page.last()?.id);
        self.done = page.len() < PAGE;
        let line = |memory| json!(described(memory, &self.reader, &self.app)).to_string() + "\n";
        let lines: String = page.into_iter().map(line).collect();
        Some((Ok(lines.into()), self))
    }
}

/// An export that could not be finished.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error("the store did not answer")]
    Store,
    #[error("the key was revoked or expired")]
    Revoked,
}

fn described(memory: Memory, reader: &KnowledgeAccess, app: &App) -> wire::knowledge::Memory {
    wire::knowledge::Memory {
        id: memory.id,
        title: memory.title,
        url: url_of(memory.id, memory.url.as_deref(), app),
        content: memory.content,
        created_at: memory.created_at,
        updated_at: memory.updated_at,
        kind: memory.kind,
        spaces: memory.spaces.into_iter().filter(|space| reader.covers(*space)).collect(),
    }
}
