//! Single memories, and the export of all of them.

use std::sync::Arc;

use app::config::Urls;
use app::services::knowledge::{KnowledgeAccess, Memories};
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use bytes::Bytes;
use domain::ids::MemoryId;
use futures_util::stream;
use serde_json::json;
use store::Store;
use store::memory::{Memory, MemoryScope};
use wire::Done;

use super::error::KnowledgeResult;
use super::search::url_of;
use super::stream::EventStreams;
use super::{KnowledgeKey, ToSearch, ToWrite};
use crate::body;
use crate::error::Code;
use crate::named::Named;

/// Memories that the export reads at a time.
const PAGE: usize = 20;

/// Characters of a memory's content in a response: all of them.
const CONTENT_WHOLE: u32 = i32::MAX.unsigned_abs();

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

/// `GET /v1/export`: everything that a search without spaces covers, one JSON object a line, oldest first.
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
                // The connection breaks, so that the client does not take the part for the whole.
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
    }
}
