//! A search as its caller states it.

use domain::ids::SpaceId;
use store::memory::MemoryScope;

/// What somebody looks for.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchQuery {
    /// The words.
    pub text: String,
    /// Most documents.
    pub limit: usize,
    /// The least similarity, 0 to 1.
    pub threshold: f64,
    /// Where. That the caller may look there was decided before.
    pub scope: MemoryScope,
}
impl SearchQuery {
    /// The spaces to which it is confined.
    pub(super) fn spaces(&self) -> Option<&[SpaceId]> {
        match &self.scope {
            MemoryScope::Account(_) => None,
            MemoryScope::Spaces(spaces) => Some(spaces),
        }
    }
}
