//! The embedder that a search requires.

use std::fmt;

use domain::memory::ModelId;

/// Embeds texts.
pub trait Embed: Clone + Send + Sync + 'static {
    /// Why embedding failed.
    type Error: fmt::Display + Send;

    /// The model; `None` if search is lexical only.
    fn model(&self) -> Option<&ModelId>;

    /// Embeds content: one unit vector per text.
    fn embed(&self, texts: Vec<String>) -> impl Future<Output = Result<Vec<Vec<f32>>, Self::Error>> + Send;

    /// Embeds a search query, ahead of queued content.
    fn embed_query(&self, text: String) -> impl Future<Output = Result<Vec<f32>, Self::Error>> + Send;
}
