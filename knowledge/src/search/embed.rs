//! The source of vectors that a search needs.

use std::fmt;

use domain::memory::ModelId;

/// Makes vectors.
pub trait Embed: Clone + Send + Sync + 'static {
    /// Why it cannot.
    type Error: fmt::Display + Send;

    /// The model; none when there are only words.
    fn model(&self) -> Option<&ModelId>;

    /// One vector of unit length per text, for content.
    fn embed(&self, texts: Vec<String>) -> impl Future<Output = Result<Vec<Vec<f32>>, Self::Error>> + Send;

    /// The vector of what somebody searches for, before all content that waits.
    fn embed_query(&self, text: String) -> impl Future<Output = Result<Vec<f32>, Self::Error>> + Send;
}
