//! Settings of the search.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::index;

/// `[knowledge.search]`. Times are written as "3s".
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct Settings {
    /// Maximum number of word index entries that are ranked per account. The commonest words of a query beyond this
    /// limit count for the similarity, but select no candidates. No setting of an operator: tests search few entries.
    #[serde(skip)]
    pub postings_max: u64,
    /// Chunks ranked by text if the rarest word of a query has more entries than `postings_max`.
    /// No setting of an operator: tests search few entries.
    #[serde(skip)]
    pub common_candidates_max: usize,
    /// Entries of the rarest word that are read to find these chunks, newest first.
    /// No setting of an operator: tests search few entries.
    #[serde(skip)]
    pub common_postings_max: usize,
    pub meaning_weight: f64,
    #[serde(with = "humantime_serde")]
    pub embedding_timeout: Duration,
    pub index: index::Settings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            postings_max: 3_000,
            common_candidates_max: 1_000,
            common_postings_max: 20_000,
            meaning_weight: 0.5,
            embedding_timeout: Duration::from_secs(5),
            index: index::Settings::default(),
        }
    }
}

/// Maximum number of distinct words of a query: the words of a longer text select every chunk.
pub const WORDS_MAX: usize = 32;

/// Weight of the nearness to the best chunk; the rest is the weight of a chunk's own similarity. Measured on public collections.
pub(super) const NEIGHBOUR_WEIGHT: f64 = 0.4;

/// Long documents fill many candidates: with fewer, searches would often be queried twice.
const CANDIDATES_MIN: usize = 50;

/// Maximum number of candidates per search. If they come from too few documents, the search proposes the same number again, with a limit per
/// document.
const CANDIDATES_MAX: usize = 250;

/// Candidates that each search proposes per requested document.
const CANDIDATES_PER_DOCUMENT: usize = 5;

/// Number of candidates per search for this number of documents.
pub(super) fn candidates(documents: usize) -> usize {
    documents.saturating_mul(CANDIDATES_PER_DOCUMENT).clamp(CANDIDATES_MIN, CANDIDATES_MAX)
}

impl Settings {
    /// Invalid values, as pairs of field and rule.
    pub fn problems(&self) -> Vec<(String, String)> {
        let below = |(field, rule)| (format!("index.{field}"), rule);
        let mut problems: Vec<(String, String)> = self.index.problems().into_iter().map(below).collect();
        for (name, share) in [("meaning_weight", self.meaning_weight)] {
            if !(0.0..=1.0).contains(&share) {
                problems.push((name.to_owned(), "must be between 0 and 1".to_owned()));
            }
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
        let nonsense = Settings { meaning_weight: f64::NAN, ..Settings::default() };
        assert_eq!(nonsense.problems().len(), 1);
        let index = index::Settings { threads_max: 0, ..index::Settings::default() };
        let problems = Settings { index, ..Settings::default() }.problems();
        assert_eq!(problems, [("index.threads_max".to_owned(), "must be at least 1".to_owned())]);
    }
}
