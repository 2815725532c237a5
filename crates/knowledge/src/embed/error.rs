//! Errors of embedding.

use super::http::HttpFailure;

/// Why texts were not embedded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmbedError {
    /// `provider = "none"`, so every call fails.
    #[error("embedding is disabled")]
    Off,
    /// The bundled model cannot be loaded.
    #[error("{0}")]
    Model(String),
    /// The computation panicked.
    #[error("embedding these texts failed unexpectedly")]
    BrokeOff,
    /// The endpoint failed.
    #[error(transparent)]
    Http(#[from] HttpFailure),
}
