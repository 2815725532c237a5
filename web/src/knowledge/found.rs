//! The results of a search for a page: excerpts around the words of the query.

use domain::Timestamp;
use domain::excerpt::{ExcerptPart, excerpt};
use domain::words::asked;
use knowledge::search::{Highlight, SearchHit};

use crate::Moment;

/// A memory that answers.
pub(super) struct FoundRow {
    pub id: String,
    pub title: String,
    pub kind: &'static str,
    pub url: Option<String>,
    pub percent: String,
    pub created: Moment,
    pub best: Vec<ExcerptPart>,
    /// Its other passages.
    pub others: Vec<FoundChunk>,
}

/// A passage that answers.
pub(super) struct FoundChunk {
    pub percent: String,
    pub pieces: Vec<ExcerptPart>,
}

/// The rows of a result page for `query`.
pub(super) fn rows(found: Vec<SearchHit>, query: &str, now: Timestamp, words_max: usize) -> Vec<FoundRow> {
    let stems = asked(query, words_max);
    let passage =
        |chunk: &Highlight| FoundChunk { percent: percent(chunk.similarity), pieces: excerpt(&stems, &chunk.content) };
    let row = |found: SearchHit| {
        let mut passages = found.chunks.iter().map(passage);
        FoundRow {
            id: found.memory.id.to_string(),
            title: titled(found.memory.title),
            kind: found.memory.kind.as_str(),
            url: found.memory.url,
            percent: percent(found.similarity),
            created: Moment::new(found.memory.created_at, now),
            best: passages.next().map(|passage| passage.pieces).unwrap_or_default(),
            others: passages.collect(),
        }
    };
    found.into_iter().map(row).collect()
}

/// The title of a memory, or a replacement.
pub(super) fn titled(title: String) -> String {
    if title.is_empty() { "Without a title".to_owned() } else { title }
}

fn percent(similarity: f64) -> String {
    format!("{:.0} %", similarity * 100.0)
}
