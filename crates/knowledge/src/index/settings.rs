//! Settings of the comparison of vectors.

use serde::{Deserialize, Serialize};

/// `[knowledge.search.index]`: how vectors are compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct Settings {
    pub pgvector: Pgvector,
    /// Maximum number of an account's chunks that the database compares exhaustively; it builds an index for larger
    /// accounts. No setting of an operator: tests compare few vectors.
    #[serde(skip)]
    pub pgvector_exact_max: usize,
    /// Maximum number of those indexes; further large accounts are compared exhaustively, too.
    /// No setting of an operator: tests compare few vectors.
    #[serde(skip)]
    pub pgvector_graphs_max: u32,
    pub bytes_max: usize,
    /// Memories per page read from the store. No setting of an operator: tests read small pages.
    #[serde(skip)]
    pub page_memories: usize,
    /// Accounts with up to this many vectors are compared exhaustively; above it, candidates are selected by sketches.
    /// Searches of spaces are always exhaustive. No setting of an operator: tests compare few vectors.
    #[serde(skip)]
    pub exact_max: usize,
    /// Vectors per thread of a search. No setting of an operator: tests divide small searches.
    #[serde(skip)]
    pub rows_of_thread: usize,
    pub threads_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pgvector: Pgvector::Auto,
            pgvector_exact_max: 10_000,
            pgvector_graphs_max: 200,
            bytes_max: 2 << 30,
            page_memories: 500,
            exact_max: 250_000,
            rows_of_thread: 25_000,
            threads_max: 2,
        }
    }
}

impl Settings {
    /// Invalid values, as pairs of field and rule.
    pub fn problems(&self) -> Vec<(String, String)> {
        let problem = ("threads_max".to_owned(), "must be at least 1".to_owned());
        (self.threads_max == 0).then_some(problem).into_iter().collect()
    }
}

/// Whether the database compares the vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pgvector {
    /// If pgvector is available.
    Auto,
    /// Always: the server does not start without pgvector.
    Required,
    /// Never: the process compares in memory.
    Off,
}
