//! Search: `POST /v1/search`.

use std::sync::Arc;

use app::config::Urls;
use app::services::knowledge::KnowledgeSearch;
use app::services::knowledge::search::SearchParams;
use axum::extract::State;
use domain::ids::MemoryId;
use knowledge::search::{Highlight, SearchHit};
use wire::knowledge::{Chunk, SearchRequest, SearchResult, SearchResults};

use super::error::KnowledgeResult;
use super::{Json, KnowledgeKey, ToSearch};
use crate::body;

/// `POST /v1/search`: `{results: […]}`, most similar first.
pub async fn search(
    State(search): State<KnowledgeSearch>,
    State(urls): State<Arc<Urls>>,
    KnowledgeKey(access, _): KnowledgeKey<ToSearch>,
    Json(body): Json<SearchRequest>,
) -> KnowledgeResult {
    let SearchRequest { query, limit, threshold, spaces } = body;
    let params =
        SearchParams { query: query.unwrap_or_default(), limit, threshold, spaces: spaces.unwrap_or_default() };
    let hits = search.find(&access, params).await?;
    let results = hits.into_iter().map(|hit| described(hit, &urls)).collect();
    Ok(body::answer(&SearchResults { results })?)
}

/// The URL of a memory: the URL of its page on the web, otherwise of the memory in this API.
pub fn url_of(id: MemoryId, url: Option<&str>, urls: &Urls) -> String {
    url.map_or_else(|| format!("{}/v1/memories/{id}", urls.rag), str::to_owned)
}

/// A result in the form of the protocol.
fn described(found: SearchHit, urls: &Urls) -> SearchResult {
    SearchResult {
        id: found.memory.id,
        url: url_of(found.memory.id, found.memory.url.as_deref(), urls),
        title: found.memory.title,
        content: found.memory.content,
        similarity: found.similarity,
        created_at: found.memory.created_at,
        kind: found.memory.kind,
        chunks: found
            .chunks
            .into_iter()
            .map(|Highlight { content, similarity }| Chunk { content, similarity })
            .collect(),
    }
}
