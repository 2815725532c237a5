//! Search, within the limits of a request.

use knowledge::embed::Embedder;
use knowledge::search::{Search, SearchError, SearchHit, SearchQuery};
use uuid::Uuid;
use wire::knowledge::{QUERY_BYTES_MAX, SEARCH_LIMIT, SEARCH_LIMIT_MAX, SEARCH_SPACES_MAX};

use super::access::KnowledgeAccess;
use super::refusal::Refusal;
use crate::services::Ports;

/// Searches memories. Clones share the index.
#[derive(Debug, Clone)]
pub struct KnowledgeSearch {
    ports: Ports,
    search: Search<Embedder>,
}

/// Unvalidated arguments of a search.
#[derive(Debug)]
pub struct SearchParams {
    /// Query text.
    pub query: String,
    /// Maximum number of documents; a JSON number, which has no integer type.
    pub limit: Option<f64>,
    /// Minimum similarity, 0 to 1.
    pub threshold: Option<f64>,
    /// Spaces; empty means all that the party may read.
    pub spaces: Vec<Uuid>,
}

impl KnowledgeSearch {
    /// Searches with `search`.
    pub fn new(ports: Ports, search: Search<Embedder>) -> Self {
        Self { ports, search }
    }

    /// The documents found, most similar first.
    #[boxed]
    pub async fn find(&self, access: &KnowledgeAccess, params: SearchParams) -> Result<Vec<SearchHit>, Refusal> {
        let text = params.query.trim().to_owned();
        if text.is_empty() || text.len() > QUERY_BYTES_MAX {
            let rule = format!("must have 1 to {QUERY_BYTES_MAX} bytes, blanks at its ends aside");
            return Err(Refusal::invalid("query", rule));
        }
        let threshold = params.threshold.unwrap_or(0.0);
        if !(0.0..=1.0).contains(&threshold) {
            return Err(Refusal::invalid("threshold", "must be a number from 0 to 1"));
        }
        if params.spaces.len() > SEARCH_SPACES_MAX {
            return Err(Refusal::invalid("spaces", format!("must name at most {SEARCH_SPACES_MAX}")));
        }
        let limit = limit(params.limit)?;
        let scope = access.to_search(&params.spaces, &self.ports).await?;
        let query = SearchQuery { text, limit, threshold, scope };
        let results = self.search.search(&query).await.map_err(|SearchError::Store(error)| error)?;
        if let Some(why) = results.by_words_alone {
            tracing::warn!(reason = why, "a search was answered by words alone");
        }
        Ok(results.found)
    }
}

/// In JSON, `10` and `10.0` are the same number.
fn limit(given: Option<f64>) -> Result<usize, Refusal> {
    let given = given.unwrap_or(f64::from(SEARCH_LIMIT));
    let allowed = (1..=SEARCH_LIMIT_MAX).find(|limit| (f64::from(*limit) - given).abs() < f64::EPSILON);
    let allowed =
        allowed.ok_or_else(|| Refusal::invalid("limit", format!("must be an integer from 1 to {SEARCH_LIMIT_MAX}")))?;
    Ok(allowed as usize)
}
