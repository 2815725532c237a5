//! Memories: lists, single memories, and the export.

use std::str::FromStr;
use std::sync::Arc;

use app::config::Urls;
use app::services::knowledge::edit::RequestedEdit;
use app::services::knowledge::library::ListParams;
use app::services::knowledge::{KnowledgeAccess, Memories};
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use bytes::Bytes;
use domain::ids::MemoryId;
use futures_util::stream;
use serde::Deserialize;
use serde_json::json;
use store::Store;
use store::memory::{Memory, MemoryScope};
use wire::Done;
use wire::knowledge::MemoryEntry;

use super::error::KnowledgeResult;
use super::search::url_of;
use super::stream::EventStreams;
use super::{Json, KnowledgeKey, KnowledgeQuery, ToSearch, ToWrite};
use crate::body;
use crate::error::{ApiError, Code};
use crate::named::Named;

/// Number of memories that the export reads at a time.
const PAGE: usize = 20;

/// Maximum number of characters of a memory's content in a response: no limit.
const CONTENT_WHOLE: u32 = i32::MAX.unsigned_abs();

/// `GET /v1/memories?space&type&tag&day&cursor&limit`, not yet parsed.
#[derive(Debug, Deserialize)]
pub struct ListParameters {
    space: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    tag: Option<String>,
    day: Option<String>,
    cursor: Option<String>,
    limit: Option<String>,
}

impl ListParameters {
    fn parsed(self) -> Result<ListParams, ApiError> {
        fn parameter<T: FromStr>(name: &str, text: Option<String>, rule: &str) -> Result<Option<T>, ApiError> {
            text.map(|text| text.parse().map_err(|_| ApiError::invalid(name, rule))).transpose()
        }
        Ok(ListParams {
            space: parameter("space", self.space, "must be the id of a space")?,
            kind: parameter("type", self.kind, "must be note, page, document, tweet or notion")?,
            tag: parameter("tag", self.tag, "must be a tag of 1 to 50 characters without commas")?,
            day: parameter("day", self.day, "must be a day such as 2026-01-31")?,
            cursor: parameter("cursor", self.cursor, "must be the nextCursor of a page")?,
            limit: parameter("limit", self.limit, "must be an integer from 1 to 100")?,
        })
    }
}

/// `GET /v1/memories`: a page of memories, the newest first.
pub async fn list(
    State(memories): State<Memories>,
    State(urls): State<Arc<Urls>>,
    KnowledgeKey(access, _): KnowledgeKey<ToSearch>,
    KnowledgeQuery(query): KnowledgeQuery<ListParameters>,
) -> KnowledgeResult {
    let page = memories.list(&access, &query.parsed()?).await?;
    let entry = |memory: Memory| MemoryEntry {
        id: memory.id,
        title: memory.title,
        url: url_of(memory.id, memory.url.as_deref(), &urls),
        excerpt: memory.content,
        created_at: memory.created_at,
        updated_at: memory.updated_at,
        kind: memory.kind,
        spaces: memory.spaces.into_iter().filter(|space| access.covers(*space)).collect(),
        tags: memory.tags,
    };
    let next_cursor = page.next.map(|id| id.to_string());
    Ok(body::answer(&wire::knowledge::MemoryList {
        memories: page.memories.into_iter().map(entry).collect(),
        next_cursor,
    })?)
}

/// `PATCH /v1/memories/{id}`: the memory after the change. Absent members do not change.
pub async fn change(
    State(memories): State<Memories>,
    State(urls): State<Arc<Urls>>,
    KnowledgeKey(access, _): KnowledgeKey<ToWrite>,
    Named(id): Named,
    Json(body): Json<wire::knowledge::MemoryChange>,
) -> KnowledgeResult {
    let id: MemoryId = id.parse().map_err(|_| Code::NotFound)?;
    let wire::knowledge::MemoryChange { title, content, tags, spaces } = body;
    let memory = memories.edit(&access, id, &RequestedEdit { title, content, tags, spaces }).await?;
    Ok(body::answer(&described(memory, &access, &urls))?)
}

/// `GET /v1/memories/{id}`: one memory with its whole text and its spaces.
pub async fn show(
    State(memories): State<Memories>,
    State(urls): State<Arc<Urls>>,
    KnowledgeKey(access, _): KnowledgeKey<ToSearch>,
    Named(id): Named,
) -> KnowledgeResult {
    let id: MemoryId = id.parse().map_err(|_| Code::NotFound)?;
    let memory = memories.find(&access, id).await?;
    Ok(body::answer(&described(memory, &access, &urls))?)
}

/// `DELETE /v1/memories/{id}`: `{ok: true}`; deleted from every space, or from every space that a key for certain spaces covers.
pub async fn delete(
    State(memories): State<Memories>,
    KnowledgeKey(access, _): KnowledgeKey<ToWrite>,
    Named(id): Named,
) -> KnowledgeResult {
    let id: MemoryId = id.parse().map_err(|_| Code::NotFound)?;
    memories.delete(&access, id).await?;
    Ok(body::answer(&Done::OK)?)
}

/// `GET /v1/export`: all memories that a search without spaces covers, one JSON object per line, oldest first.
pub async fn export(
    State(memories): State<Memories>,
    State(store): State<Store>,
    State(streams): State<EventStreams>,
    State(urls): State<Arc<Urls>>,
    KnowledgeKey(access, _): KnowledgeKey<ToSearch>,
) -> KnowledgeResult {
    let scope = memories.scope(&access).await?;
    let credential = access.credential.clone();
    let begin = Pages { store, urls, access, scope, after: None, done: false };
    let pages = stream::unfold(begin, |pages| async move { pages.next().await });
    let pages = streams.checks().while_valid(credential, pages, Err(ExportError::Revoked));
    let headers = [(CONTENT_TYPE, "application/x-ndjson"), (CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(pages)).into_response())
}

/// The rest of an export.
struct Pages {
    store: Store,
    urls: Arc<Urls>,
    access: KnowledgeAccess,
    scope: MemoryScope,
    /// The last memory that was sent.
    after: Option<MemoryId>,
    done: bool,
}

impl Pages {
    async fn next(mut self) -> Option<(Result<Bytes, ExportError>, Self)> {
        if self.done {
            return None;
        }
        let page = match self.store.memories_of(&self.scope, self.after, PAGE, CONTENT_WHOLE).await {
            Ok(page) => page,
            Err(error) => {
                self.done = true;
                tracing::error!(error = domain::reasons(&error), "an export was cut off");
                // The connection is aborted, so that the client does not treat the partial response as complete.
                return Some((Err(ExportError::Store), self));
            }
        };
        self.after = Some(page.last()?.id);
        self.done = page.len() < PAGE;
        let line = |memory| json!(described(memory, &self.access, &self.urls)).to_string() + "\n";
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

fn described(memory: Memory, access: &KnowledgeAccess, urls: &Urls) -> wire::knowledge::Memory {
    wire::knowledge::Memory {
        id: memory.id,
        title: memory.title,
        url: url_of(memory.id, memory.url.as_deref(), urls),
        content: memory.content,
        created_at: memory.created_at,
        updated_at: memory.updated_at,
        kind: memory.kind,
        spaces: memory.spaces.into_iter().filter(|space| access.covers(*space)).collect(),
        tags: memory.tags,
    }
}
