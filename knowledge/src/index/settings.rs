//! Settings of the comparison of vectors.

use serde::{Deserialize, Serialize};

/// `[knowledge.search.index]`: how vectors are compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Whether the database compares the vectors.
    pub pgvector: Pgvector,
    /// Up to so many chunks of a shelf, the database compares all; for a larger shelf it makes an index.
    pub pgvector_exact_max: usize,
    /// Memory for the vectors of all accounts, in bytes. One account that needs more has it while it is searched.
    pub bytes_max: usize,
    /// Memories that are read from the store at once.
    pub page_memories: usize,
    /// Up to so many vectors of a shelf, all are compared; of more, those with a near sketch. A search of spaces always compares all
    /// that are in them.
    pub exact_max: usize,
    /// More vectors than this are divided among threads.
    pub rows_of_thread: usize,
    /// Most threads of one search.
    pub threads_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pgvector: Pgvector::Auto,
            pgvector_exact_max: 10_000,
            bytes_max: 2 << 30,
            page_memories: 500,
            exact_max: 250_000,
            rows_of_thread: 25_000,
            threads_max: 2,
        }
    }
}

impl Settings {
    /// What cannot be meant.
    pub fn problems(&self) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        for (name, value) in [
            ("page_memories", self.page_memories),
            ("rows_of_thread", self.rows_of_thread),
            ("threads_max", self.threads_max),
        ] {
            if value == 0 {
                problems.push((name.to_owned(), "must be at least 1".to_owned()));
            }
        }
        problems
    }
}

/// Whether the database compares the vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pgvector {
    /// If it can.
    Auto,
    /// It must: without the extension there is no start.
    Required,
    /// Never.
    Off,
}
