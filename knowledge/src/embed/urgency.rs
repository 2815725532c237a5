//! Whether a search or a batch needs the vector.

/// Who waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    /// Somebody who searches.
    Query,
    /// A batch that is being added.
    Content,
}
