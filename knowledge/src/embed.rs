//! Turns text into embeddings: vectors whose angles measure semantic similarity (`docs/decisions/0039-bundled-embedding-model.md`).
//!
//! Three providers: the model inside this program, an OpenAI-compatible endpoint, or none. With every provider a vector has length
//! 1 and belongs to a [`ModelId`]; vectors of different models are not comparable.

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
pub use settings::{EmbeddingSettings, HttpEmbeddingSettings, Provider};

/// Makes vectors. Clones share threads and connections.
#[derive(Debug, Clone)]
pub struct Embedder {
    model: Option<ModelId>,
    way: Backend,
}

#[derive(Debug, Clone)]
enum Backend {
    Nowhere,
    Bundled(Bundled),
    Http(Http),
}

/// An embedder that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum InvalidEmbedder {
    /// The settings say too little; [`EmbeddingSettings::problems`] says what.
    #[error("knowledge.embedding.{0}: {1}")]
    Settings(String, String),
    /// The HTTP library.
    #[error("making the HTTP client: {0}")]
    Client(#[from] reqwest::Error),
    /// The operating system gives no thread.
    #[error("starting the embedding threads: {0}")]
    Threads(#[from] std::io::Error),
}

impl Embedder {
    /// What the settings name. Nothing is loaded and nothing is sent before the first text.
    pub fn new(settings: &EmbeddingSettings, rng: &Rng) -> Result<Self, InvalidEmbedder> {
        if let Some((field, rule)) = settings.problems().into_iter().next() {
            return Err(InvalidEmbedder::Settings(field, rule));
        }
        Ok(match settings.provider {
            Provider::None => Self { model: None, way: Backend::Nowhere },
            Provider::Bundled => {
                #[expect(clippy::cast_possible_truncation, reason = "384 is less than 65536")]
                let model = ModelId { name: minilm::NAME.to_owned(), dimensions: minilm::DIMENSIONS as u16 };
                Self { model: Some(model), way: Backend::Bundled(Bundled::new(settings)?) }
            }
            Provider::Http => {
                let http = Http::new(&settings.http, rng)?;
                Self { model: Some(http.model().clone()), way: Backend::Http(http) }
            }
        })
    }

    /// Whose vectors these are; absent when there are none.
    pub fn model(&self) -> Option<&ModelId> {
        self.model.as_ref()
    }

    /// One vector a text, in their order: for content that is being added. Dropping the future gives up what has not begun.
    pub async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.through(texts, Urgency::Content).await
    }

    /// The vector of a search: goes before all content that waits.
    pub async fn embed_query(&self, text: String) -> Result<Vec<f32>, EmbedError> {
        self.through(vec![text], Urgency::Query).await?.pop().ok_or(EmbedError::BrokeOff)
    }

    async fn through(&self, texts: Vec<String>, urgency: Urgency) -> Result<Vec<Vec<f32>>, EmbedError> {
        match &self.way {
            Backend::Nowhere => Err(EmbedError::Off),
            _ if texts.is_empty() => Ok(Vec::new()),
            Backend::Bundled(bundled) => bundled.embed(texts, urgency).await,
            Backend::Http(http) => Ok(http.embed(texts, urgency).await?),
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
