//! The results of a search for a page: excerpts around the words of the query. Results with the same text are one row.

use std::collections::HashMap;

use domain::Timestamp;
use domain::excerpt::{ExcerptPart, excerpt};
use domain::fit::{self, Fit};
use domain::words::asked;
use knowledge::search::{Highlight, SearchHit, WORDS_MAX};

use super::SpaceLink;
use super::row::{SpaceNames, linked, source};
use crate::Moment;
use crate::markdown::plain;

/// A memory that matches the query.
pub(super) struct FoundRow {
    pub id: String,
    pub title: String,
    /// "note", or the host of a page.
    pub source: String,
    pub similarity: f64,
    pub fit: Fit,
    pub created: Moment,
    pub spaces: Vec<SpaceLink>,
    pub tags: Vec<String>,
    pub best: Vec<ExcerptPart>,
    /// Its other chunks.
    pub others: Vec<Vec<ExcerptPart>>,
    /// Other memories with the same text.
    pub twins: Vec<Twin>,
}

/// A memory with the same text as a better result.
pub(super) struct Twin {
    pub id: String,
    pub title: String,
    pub source: String,
}

/// Number of characters in which two texts are compared.
const COMPARED_CHARS: usize = 4000;

/// The rows of a result page for `query`.
pub(super) fn rows(found: Vec<SearchHit>, query: &str, names: &SpaceNames, now: Timestamp) -> Vec<FoundRow> {
    let stems = asked(query, WORDS_MAX);
    let chunk = |chunk: &Highlight| excerpt(&stems, &plain(&chunk.content));
    let mut rows: Vec<FoundRow> = Vec::with_capacity(found.len());
    let mut texts: HashMap<String, usize> = HashMap::new();
    for hit in found {
        let (id, title) = (hit.memory.id.to_string(), titled(hit.memory.title));
        let source = source(hit.memory.kind.as_str(), hit.memory.url.as_deref());
        let beginning: String = hit.memory.content.chars().take(COMPARED_CHARS).collect();
        let place = *texts.entry(plain(&beginning).to_lowercase()).or_insert(rows.len());
        if let Some(row) = rows.get_mut(place) {
            row.twins.push(Twin { id, title, source });
            continue;
        }
        let mut chunks = hit.chunks.iter().map(chunk);
        rows.push(FoundRow {
            id,
            title,
            source,
            similarity: hit.similarity,
            fit: Fit::Loose,
            created: Moment::new(hit.memory.created_at, now),
            spaces: linked(&hit.memory.spaces, names),
            tags: hit.memory.tags.iter().map(ToString::to_string).collect(),
            best: chunks.next().unwrap_or_default(),
            others: chunks.collect(),
            twins: Vec::new(),
        });
    }
    let fits = fit::fits(&rows.iter().map(|row| row.similarity).collect::<Vec<_>>());
    for (row, fit) in rows.iter_mut().zip(fits) {
        row.fit = fit;
    }
    rows
}

/// The title of a memory, or a replacement.
pub(super) fn titled(title: String) -> String {
    if title.is_empty() { "Without a title".to_owned() } else { title }
}
