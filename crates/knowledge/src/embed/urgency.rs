//! Priority of a text to embed.

/// The caller that waits for the vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    /// A search.
    Query,
    /// A batch.
    Content,
}
