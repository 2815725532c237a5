//! Knobs of the search.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::index;

/// `[knowledge.search]`. Times are written as "3s".
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Chunks that each leg proposes for every document that is wanted.
    pub candidates_per_document: usize,
    /// And no more than these; no fewer than 50. If all of them are of fewer documents, the leg proposes as many once more, of others
    /// too.
    pub candidates_max: usize,
    /// Different words of a query that are looked for.
    pub words_max: usize,
    /// Entries of the word index that one search of a shelf ranks: the commonest words of a query beyond that count for the similarity, but
    /// propose no candidates.
    pub postings_max: u64,
    /// Chunks that are ranked by their texts if the rarest word of a query has more entries than `postings_max`.
    pub common_candidates_max: usize,
    /// Entries of the rarest word that are walked through to find them, newest first.
    pub common_postings_max: usize,
    /// Accounts whose memories one search of spaces goes through, the fullest first.
    pub shelves_max: usize,
    /// Chunks that are shown of a document.
    pub chunks_shown: usize,
    /// Characters that are shown of a document's text.
    pub content_max: u32,
    /// The share of meaning in the similarity, 0 to 1; the rest is that of words.
    pub meaning_weight: f64,
    /// After this, the query's words answer alone.
    #[serde(with = "humantime_serde")]
    pub embedding_timeout: Duration,
    /// Vectors in memory.
    pub index: index::Settings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            candidates_per_document: 5,
            candidates_max: 250,
            words_max: 32,
            postings_max: 3_000,
            common_candidates_max: 1_000,
            common_postings_max: 20_000,
            shelves_max: 32,
            chunks_shown: 5,
            content_max: 100_000,
            meaning_weight: 0.5,
            embedding_timeout: Duration::from_secs(5),
            index: index::Settings::default(),
        }
    }
}

/// Long documents propose many chunks: with fewer candidates, a leg would often have to be asked twice.
const CANDIDATES_MIN: usize = 50;

impl Settings {
    /// Chunks that each leg proposes for so many documents.
    pub(super) fn candidates(&self, documents: usize) -> usize {
        let wanted = documents.saturating_mul(self.candidates_per_document);
        wanted.clamp(CANDIDATES_MIN, self.candidates_max.max(CANDIDATES_MIN))
    }

    /// What cannot be meant.
    pub fn problems(&self) -> Vec<(String, String)> {
        let below = |(field, rule)| (format!("index.{field}"), rule);
        let mut problems: Vec<(String, String)> = self.index.problems().into_iter().map(below).collect();
        for (name, least, value, most) in [
            ("candidates_per_document", 1, self.candidates_per_document, 100),
            ("candidates_max", CANDIDATES_MIN, self.candidates_max, 2_000),
            ("words_max", 1, self.words_max, 256),
            ("common_candidates_max", CANDIDATES_MIN, self.common_candidates_max, 10_000),
            ("common_postings_max", 1, self.common_postings_max, 1_000_000),
            ("shelves_max", 1, self.shelves_max, 1_000),
            ("chunks_shown", 1, self.chunks_shown, 5),
            ("content_max", 1, self.content_max as usize, 100_000),
        ] {
            if !(least..=most).contains(&value) {
                problems.push((name.to_owned(), format!("must be between {least} and {most}")));
            }
        }
        if !(0.0..=1.0).contains(&self.meaning_weight) {
            problems.push(("meaning_weight".to_owned(), "must be between 0 and 1".to_owned()));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_without_problems_and_nonsense_is_not() {
        assert_eq!(Settings::default().problems(), []);
        let nonsense = Settings { meaning_weight: f64::NAN, chunks_shown: 0, ..Settings::default() };
        assert_eq!(nonsense.problems().len(), 2);
        let index = index::Settings { threads_max: 0, ..index::Settings::default() };
        let found = Settings { index, ..Settings::default() }.problems();
        assert_eq!(found, [("index.threads_max".to_owned(), "must be at least 1".to_owned())]);
    }
}
