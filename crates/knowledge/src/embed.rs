//! Turns text into embeddings: vectors with angles that measure semantic similarity
//! (`docs/decisions/0023-vectors.md`).
//!
//! Providers are the bundled model, an OpenAI-compatible endpoint, or none. Every vector has length 1 and belongs to a
//! [`ModelId`]; vectors of different models are not comparable.

mod bundled;
mod error;
mod http;
mod settings;
mod urgency;

use bundled::Bundled;
use domain::Rng;
use domain::memory::ModelId;
use http::Http;
use urgency::Urgency;

use crate::search::Embed;

pub use error::EmbedError;
pub use http::HttpFailure;
pub use settings::{EmbeddingProvider, EmbeddingSettings, HttpEmbeddingSettings};

/// Embeds texts with the configured provider. Clones share threads and connections.
#[derive(Debug, Clone)]
pub struct Embedder {
    model: Option<ModelId>,
    way: EmbedBackend,
}

#[derive(Debug, Clone)]
enum EmbedBackend {
    Disabled,
    Bundled(Bundled),
    Http(Http),
}

/// Why an embedder cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum InvalidEmbedder {
    /// A setting is invalid; see [`EmbeddingSettings::problems`].
    #[error("knowledge.embedding.{0}: {1}")]
    Settings(String, String),
    /// The HTTP client cannot be created.
    #[error("cannot create an HTTP client")]
    Client(#[from] reqwest::Error),
    /// The operating system cannot start a thread.
    #[error("cannot start the embedding threads")]
    Threads(#[from] std::io::Error),
}

impl Embedder {
    /// Creates the configured embedder. Loads and sends nothing before the first text.
    pub fn new(settings: &EmbeddingSettings, rng: &Rng) -> Result<Self, InvalidEmbedder> {
        if let Some((field, rule)) = settings.problems().into_iter().next() {
            return Err(InvalidEmbedder::Settings(field, rule));
        }
        Ok(match settings.provider {
            EmbeddingProvider::None => Self { model: None, way: EmbedBackend::Disabled },
            EmbeddingProvider::Bundled => {
                #[expect(clippy::cast_possible_truncation, reason = "384 is less than 65536")]
                let model = ModelId { name: minilm::NAME.to_owned(), dimensions: minilm::DIMENSIONS as u16 };
                Self { model: Some(model), way: EmbedBackend::Bundled(Bundled::new(settings)?) }
            }
            EmbeddingProvider::Http => {
                let endpoint = settings.http.endpoint().ok_or_else(|| {
                    InvalidEmbedder::Settings("http".to_owned(), "must name an endpoint and a model".to_owned())
                })?;
                let http = Http::new(endpoint, &settings.http, rng)?;
                Self { model: Some(http.model().clone()), way: EmbedBackend::Http(http) }
            }
        })
    }

    /// The model of the vectors; `None` without a provider.
    pub fn model(&self) -> Option<&ModelId> {
        self.model.as_ref()
    }

    /// Embeds content: one vector per text, in their order. Dropping the future cancels the texts that are still
    /// queued.
    #[boxed]
    pub async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.through(texts, Urgency::Content).await
    }

    /// Embeds a search query, ahead of all queued content.
    #[boxed]
    pub async fn embed_query(&self, text: String) -> Result<Vec<f32>, EmbedError> {
        self.through(vec![text], Urgency::Query).await?.pop().ok_or(EmbedError::BrokeOff)
    }

    async fn through(&self, texts: Vec<String>, urgency: Urgency) -> Result<Vec<Vec<f32>>, EmbedError> {
        match &self.way {
            EmbedBackend::Disabled => Err(EmbedError::Off),
            _ if texts.is_empty() => Ok(Vec::new()),
            EmbedBackend::Bundled(bundled) => bundled.embed(texts, urgency).await,
            EmbedBackend::Http(http) => Ok(http.embed(texts, urgency).await?),
        }
    }
}

impl Embed for Embedder {
    type Error = EmbedError;

    fn model(&self) -> Option<&ModelId> {
        self.model()
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.embed(texts).await
    }

    async fn embed_query(&self, text: String) -> Result<Vec<f32>, EmbedError> {
        self.embed_query(text).await
    }
}
