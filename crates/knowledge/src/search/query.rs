//! The input of a search.

use domain::ids::SpaceId;
use store::memory::MemoryScope;

/// A search query with its limits and scope.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchQuery {
    /// Text of the query.
    pub text: String,
    /// Maximum number of documents.
    pub limit: usize,
    /// Minimum similarity, 0 to 1.
    pub threshold: f64,
    /// The memories to search. The caller has checked access.
    pub scope: MemoryScope,
}
impl SearchQuery {
    /// The spaces to search; `None` for the whole account.
    pub(super) fn spaces(&self) -> Option<&[SpaceId]> {
        match &self.scope {
            MemoryScope::Account(_) => None,
            MemoryScope::Spaces(spaces) => Some(spaces),
        }
    }
}
