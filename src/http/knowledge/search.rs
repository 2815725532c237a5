//! Searching.

use axum::extract::State;
use domain::ids::MemoryId;
use knowledge::search::{Found, Highlight, SearchQuery};
use uuid::Uuid;
use wire::knowledge::{
    Chunk, QUERY_BYTES_MAX, SEARCH_LIMIT, SEARCH_LIMIT_MAX, SEARCH_SPACES_MAX, SearchRequest, SearchResult,
    SearchResults,
};

use super::error::KnowledgeResult;
use super::{Json, KnowledgeKey, ToSearch};
use crate::app::App;
use crate::http::body;
use crate::http::error::ApiError;
use crate::knowledge::KnowledgeAccess;

/// `POST /v1/search`: `{results: […]}`, most similar first.
pub async fn search(
    State(app): State<App>,
    KnowledgeKey(reader, _): KnowledgeKey<ToSearch>,
    Json(body): Json<SearchRequest>,
) -> KnowledgeResult {
    let SearchRequest { query, limit, threshold, spaces } = body;
    let asked = SearchParams { query: query.unwrap_or_default(), limit, threshold, spaces: spaces.unwrap_or_default() };
    let found = find(&app, &reader, asked).await?;
    let results = found.into_iter().map(|found| described(found, &app)).collect();
    Ok(body::answer(&SearchResults { results })?)
}

/// What somebody looks for, not judged yet.
#[derive(Debug)]
pub struct SearchParams {
    /// The words.
    pub query: String,
    /// Most documents.
    pub limit: Option<f64>,
    /// The least similarity.
    pub threshold: Option<f64>,
    /// Where; everywhere when none is named.
    pub spaces: Vec<Uuid>,
}

/// Searches, within every limit.
pub async fn find(app: &App, reader: &KnowledgeAccess, asked: SearchParams) -> Result<Vec<Found>, ApiError> {
    let text = asked.query.trim().to_owned();
    if text.is_empty() || text.len() > QUERY_BYTES_MAX {
        return Err(ApiError::invalid(
            "query",
            format!("must have 1 to {QUERY_BYTES_MAX} bytes, blanks at its ends aside"),
        ));
    }
    let threshold = asked.threshold.unwrap_or(0.0);
    if !(0.0..=1.0).contains(&threshold) {
        return Err(ApiError::invalid("threshold", "must be a number from 0 to 1"));
    }
    if asked.spaces.len() > SEARCH_SPACES_MAX {
        return Err(ApiError::invalid("spaces", format!("must name at most {SEARCH_SPACES_MAX}")));
    }
    let limit = limit(asked.limit)?;
    let scope = reader.to_search(&asked.spaces, app).await?;
    let answer = app.search.search(&SearchQuery { text, limit, threshold, scope }).await.map_err(|error| {
        let knowledge::search::SearchError::Store(error) = error;
        ApiError::from(error)
    })?;
    if let Some(why) = answer.by_words_alone {
        tracing::warn!(reason = why, "a search was answered by words alone");
    }
    Ok(answer.found)
}

/// A JSON number has no type: `10` and `10.0` are the same one.
fn limit(asked: Option<f64>) -> Result<usize, ApiError> {
    let asked = asked.unwrap_or(f64::from(SEARCH_LIMIT));
    let allowed = (1..=SEARCH_LIMIT_MAX).find(|limit| (f64::from(*limit) - asked).abs() < f64::EPSILON);
    let allowed = allowed
        .ok_or_else(|| ApiError::invalid("limit", format!("must be an integer from 1 to {SEARCH_LIMIT_MAX}")))?;
    Ok(allowed as usize)
}

/// Where a memory is: its page, or the note itself.
pub fn url_of(id: MemoryId, url: Option<&str>, app: &App) -> String {
    url.map_or_else(|| format!("{}/v1/memories/{id}", app.rag_url), str::to_owned)
}

/// A result, as the specification has it.
fn described(found: Found, app: &App) -> SearchResult {
    SearchResult {
        id: found.memory.id,
        url: url_of(found.memory.id, found.memory.url.as_deref(), app),
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
